"""Messages of Flight SQL: transcribed .proto files and the code generated from them."""
