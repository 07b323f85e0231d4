-- Append spans to their requests, each a list under its trace id, and say when a request is to be looked at: a while after its
-- root came, else after a silence. Spans of a request that was settled are late: they are counted and dropped, and so are those
-- beyond the limits of a trace. A request is of the stream of its root, once that came. Nothing is stored if too many requests
-- would wait.
-- KEYS waiting streams projects   ARGV prefix project now hour max_waiting max_spans max_streams max_recent kept_s grace_ms
--   silence_ms max_bytes (trace stream has_root number (span size)...)...   -> -1 if too many wait, else late spans, refused spans
local p, project, now, hour = unpack(ARGV, 1, 4)
local max_waiting, max_spans, max_streams, max_recent, kept_s = unpack(ARGV, 5, 9)
local grace, silence, max_bytes = unpack(ARGV, 10, 12)
local first = 13

local function counts(request) return p .. 'counts:' .. request.stream .. ':' .. request.hour end

local function stream_of(name)
  if redis.call('HEXISTS', KEYS[2], name) == 1 then return name end
  if redis.call('HLEN', KEYS[2]) >= tonumber(max_streams) then name = 'other' end
  redis.call('HSETNX', KEYS[2], name, '{}')
  return name
end

local function enter(trace, request)
  local recent, hours = p .. 'recent:' .. request.stream, p .. 'hours:' .. request.stream
  redis.call('HINCRBY', counts(request), 'received', 1)
  redis.call('HINCRBY', counts(request), 'waiting', 1)
  redis.call('ZADD', hours, 'NX', request.at, request.hour)
  redis.call('ZADD', recent, request.at, trace)
  for _, key in ipairs({counts(request), hours, recent}) do redis.call('EXPIRE', key, kept_s) end
  local over = math.min(redis.call('ZCARD', recent) - tonumber(max_recent), 100)
  for _, old in ipairs(over > 0 and redis.call('ZRANGE', recent, 0, over - 1) or {}) do
    if not redis.call('ZSCORE', KEYS[1], old) then
      redis.call('ZREM', recent, old)
      redis.call('DEL', p .. 'request:' .. old)
    end
  end
end

local function leave(trace, request)
  redis.call('HINCRBY', counts(request), 'received', -1)
  redis.call('HINCRBY', counts(request), 'waiting', -1)
  local recent = p .. 'recent:' .. request.stream
  redis.call('ZREM', recent, trace)
  local is_inner = redis.call('ZCARD', recent) == 0 and redis.call('HGET', KEYS[2], request.stream) == '{}'
  if is_inner then redis.call('HDEL', KEYS[2], request.stream) end  -- no request of its own, and no rule
end

local new, i = 0, first
while i <= #ARGV do
  if redis.call('EXISTS', p .. 'request:' .. ARGV[i]) == 0 then new = new + 1 end
  i = i + 4 + 2 * ARGV[i + 3]
end
if new > 0 and redis.call('ZCARD', KEYS[1]) + new > tonumber(max_waiting) then return {-1, 0} end

redis.call('SADD', KEYS[3], project)
local late, refused = 0, 0
i = first
while i <= #ARGV do
  local trace, stream, has_root, number = unpack(ARGV, i, i + 3)
  local at, spans = p .. 'request:' .. trace, p .. 'spans:' .. trace
  local known, due = redis.call('GET', at), redis.call('ZSCORE', KEYS[1], trace)
  local request = known and cjson.decode(known)
  number = tonumber(number)
  if request and not due then
    redis.call('HINCRBY', counts(request), 'late', number)
    late = late + number
  else
    local is_root = has_root == '1' and not (request and request.root)
    if not request then
      request = {stream = stream_of(stream), hour = hour, status = 'waiting', at = tonumber(now), root = false, bytes = 0}
      enter(trace, request)
    elseif is_root and stream_of(stream) ~= request.stream then
      leave(trace, request)
      request.stream = stream_of(stream)
      enter(trace, request)
    end
    local held, beyond = redis.call('LLEN', spans), 0
    for n = i + 4, i + 2 + 2 * number, 2 do
      local size = tonumber(ARGV[n + 1])
      if held < tonumber(max_spans) and request.bytes + size <= tonumber(max_bytes) then
        redis.call('RPUSH', spans, ARGV[n])
        held, request.bytes = held + 1, request.bytes + size
      else
        beyond = beyond + 1
      end
    end
    if beyond > 0 then redis.call('HINCRBY', counts(request), 'refused', beyond) end
    refused = refused + beyond
    redis.call('PEXPIRE', spans, silence + 86400000)
    if is_root then
      request.root = true
      redis.call('ZADD', KEYS[1], now + grace, trace)
    elseif not request.root then
      redis.call('ZADD', KEYS[1], now + silence, trace)
    end
    redis.call('SET', at, cjson.encode(request), 'EX', kept_s)
  end
  i = i + 4 + 2 * number
end
return {late, refused}
