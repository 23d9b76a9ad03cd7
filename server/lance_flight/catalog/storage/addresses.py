"""Row addresses, as Lance gives them: the number of a fragment in the high half, the offset of a row in it in the low one."""

from __future__ import annotations

ROW_ADDRESS = "_rowaddr"
TABLE_NUMBER = "_table_number"
"""Column with the number of a table within one scan."""
OFFSET_BITS = 32
OFFSETS = (1 << OFFSET_BITS) - 1
