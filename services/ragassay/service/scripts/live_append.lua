-- Append spans of a trace to its request, and say when that is to be looked at: a while after its root came, else after a silence.
-- Spans of a request that was settled are late: they are counted and dropped, and so are those beyond the limits of a trace.
-- A request is of the stream of its root, once that came.
-- KEYS waiting streams   ARGV prefix now hour max_spans max_bytes max_streams max_recent kept_s grace_ms silence_ms trace stream
--   is_root (span size)...   -> late spans, refused spans
local p, now, hour, max_spans, max_bytes, max_streams, max_recent, kept_s = unpack(ARGV, 1, 8)
local grace, silence, trace, name, is_root = unpack(ARGV, 9, 13)
local at, spans = p .. 'request:' .. trace, p .. 'spans:' .. trace
local known = redis.call('GET', at)
local request = known and cjson.decode(known)
if redis.call('HEXISTS', KEYS[2], name) == 0 and redis.call('HLEN', KEYS[2]) >= tonumber(max_streams) then name = 'other' end

local function count(what, by)
  local counts = p .. 'counts:' .. request.stream .. ':' .. request.hour
  redis.call('HINCRBY', counts, what, by)
  redis.call('EXPIRE', counts, kept_s)
end

local function enter()
  local recent, hours = p .. 'recent:' .. name, p .. 'hours:' .. name
  request.stream = name
  redis.call('HSETNX', KEYS[2], name, '{}')
  count('received', 1)
  count('waiting', 1)
  redis.call('ZADD', hours, 'NX', request.at, request.hour)
  redis.call('ZADD', recent, request.at, trace)
  redis.call('EXPIRE', hours, kept_s)
  redis.call('EXPIRE', recent, kept_s)
  local over = math.min(redis.call('ZCARD', recent) - tonumber(max_recent), 100)
  for _, old in ipairs(over > 0 and redis.call('ZRANGE', recent, 0, over - 1) or {}) do
    if not redis.call('ZSCORE', KEYS[1], old) then
      redis.call('ZREM', recent, old)
      redis.call('DEL', p .. 'request:' .. old)
    end
  end
end

local function leave()
  local recent = p .. 'recent:' .. request.stream
  count('received', -1)
  count('waiting', -1)
  redis.call('ZREM', recent, trace)
  local is_inner = redis.call('ZCARD', recent) == 0 and redis.call('HGET', KEYS[2], request.stream) == '{}'
  if is_inner then redis.call('HDEL', KEYS[2], request.stream) end -- no request of its own, and no rule
end

if request and not redis.call('ZSCORE', KEYS[1], trace) then
  local late = (#ARGV - 13) / 2
  count('late', late)
  return {late, 0}
end
is_root = is_root == '1' and not (request and request.root)
if not request then
  request = {hour = hour, status = 'waiting', at = tonumber(now), root = false, bytes = 0}
  enter()
elseif is_root and name ~= request.stream then
  leave()
  enter()
end
local held, refused = redis.call('LLEN', spans), 0
for i = 14, #ARGV, 2 do
  if held < tonumber(max_spans) and request.bytes + ARGV[i + 1] <= tonumber(max_bytes) then
    redis.call('RPUSH', spans, ARGV[i])
    held, request.bytes = held + 1, request.bytes + ARGV[i + 1]
  else
    refused = refused + 1
  end
end
if refused > 0 then count('refused', refused) end
redis.call('PEXPIRE', spans, silence + 86400000)
request.root = request.root or is_root
if is_root or not request.root then redis.call('ZADD', KEYS[1], now + (is_root and grace or silence), trace) end
redis.call('SET', at, cjson.encode(request), 'EX', kept_s)
return {0, refused}
