-- Bounds on what clients have in flight, before a server has seen a credential of theirs.
--
-- Counts streams, bytes of requests and streams that were given up, by the address of the client. One address has at
-- most three times as much as it leaves to others (`shares.py`).

local SHARE = 3
local most = {
    streams = 2000,
    request_bytes = 512 * 1024 * 1024, -- of all requests that are one message
    message_bytes = 96 * 1024 * 1024, -- of one of them: parameters of 64 MiB in base64, and more
    given_up = 200, -- of one address, where each counts half after a second
}
local streams, bytes, given_up = {total = 0}, {total = 0}, {}

local Bounds = {id = "bounds", flags = filter.FLT_CFG_FL_HTX}
Bounds.__index = Bounds

local function change(held, source, by)
    held.total = held.total + by
    local own = (held[source] or 0) + by
    held[source] = own > 0 and own or nil
end

local function has_share(held, source, all)
    return (held[source] or 0) <= SHARE * (all - held.total)
end

local function count_given_up(source, by)
    local now, known = core.now(), given_up[source]
    local at = now.sec + now.usec / 1000000
    local count = (known and known.count * 0.5 ^ (at - known.at) or 0) + by
    given_up[source] = count > 1 and {count = count, at = at} or nil
    return count
end

local function source_of(txn)
    return txn.f:src() or "?"
end

function Bounds:new()
    return setmetatable({size = 0}, Bounds)
end

function Bounds:start_analyze(txn, channel)
    if not channel:is_resp() then
        self.source = source_of(txn)
        change(streams, self.source, 1)
    end
    filter.register_data_filter(self, channel)
end

function Bounds:http_headers(txn, message)
    self.is_answering = self.is_answering or message:is_resp()
end

function Bounds:http_payload(txn, message)
    if message:is_resp() or not self.source or not txn:get_var("txn.is_one_message") then
        return
    end
    local size = message:input()
    self.size = self.size + size
    change(bytes, self.source, size)
    if self.size > most.message_bytes or not has_share(bytes, self.source, most.request_bytes) then
        error("the messages of " .. self.source .. " are larger than it may send") -- ends the call
    end
end

function Bounds:http_end(txn, message)
    self.is_answered = self.is_answered or message:is_resp()
end

function Bounds:end_analyze(txn, channel)
    if self.source and (channel:is_resp() or not self.is_answering) then
        change(streams, self.source, -1)
        change(bytes, self.source, -self.size)
        if not self.is_answered then
            count_given_up(self.source, 1)
        end
        self.source = nil
    end
end

core.register_filter("bounds", Bounds, function(bounds, _) return bounds end)
core.register_fetches("may_call", function(txn)
    local source = source_of(txn)
    return count_given_up(source, 0) <= most.given_up and has_share(streams, source, most.streams) and 1 or 0
end)
