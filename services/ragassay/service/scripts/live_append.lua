-- Append spans to their requests, each a list under its trace id, and say when a request is to be looked at: a while after its
-- root came, else after a silence. Spans of a request that was settled are late: they are counted and dropped, and so are those
-- beyond the limit of a trace. Nothing is stored while too many requests wait.
-- KEYS waiting streams projects   ARGV prefix project now hour max_waiting max_spans max_streams max_recent kept_s grace_ms
--   silence_ms (trace stream has_root number span...)...   -> -1 if too many wait, else late spans, refused spans
local p, project, now, hour = unpack(ARGV, 1, 4)
local max_waiting, max_spans, max_streams, max_recent, kept_s = unpack(ARGV, 5, 9)
local grace, silence = unpack(ARGV, 10, 11)
if redis.call('ZCARD', KEYS[1]) >= tonumber(max_waiting) then return {-1, 0} end
redis.call('SADD', KEYS[3], project)
local late, refused, i = 0, 0, 12
while i <= #ARGV do
  local trace, stream, has_root, number = unpack(ARGV, i, i + 3)
  local at, spans, counts = p .. 'request:' .. trace, p .. 'spans:' .. trace, nil
  local known, due = redis.call('GET', at), redis.call('ZSCORE', KEYS[1], trace)
  local request = known and cjson.decode(known)
  number = tonumber(number)
  if request and not due then
    redis.call('HINCRBY', p .. 'counts:' .. request.stream .. ':' .. request.hour, 'late', number)
    late = late + number
  else
    if not request then
      if redis.call('HEXISTS', KEYS[2], stream) == 0 then
        if redis.call('HLEN', KEYS[2]) >= tonumber(max_streams) then stream = 'other' end
        redis.call('HSETNX', KEYS[2], stream, '{}')
      end
      request = {stream = stream, hour = hour, status = 'waiting', at = tonumber(now), root = false}
      redis.call('SET', at, cjson.encode(request), 'EX', kept_s)
      counts = p .. 'counts:' .. stream .. ':' .. hour
      redis.call('HINCRBY', counts, 'received', 1)
      redis.call('HINCRBY', counts, 'waiting', 1)
      redis.call('EXPIRE', counts, kept_s)
      redis.call('ZADD', p .. 'hours:' .. stream, 'NX', now, hour)
      redis.call('EXPIRE', p .. 'hours:' .. stream, kept_s)
      local recent = p .. 'recent:' .. stream
      redis.call('ZADD', recent, now, trace)
      redis.call('EXPIRE', recent, kept_s)
      local over = math.min(redis.call('ZCARD', recent) - tonumber(max_recent), 100)
      for _, old in ipairs(over > 0 and redis.call('ZRANGE', recent, 0, over - 1) or {}) do
        if not redis.call('ZSCORE', KEYS[1], old) then
          redis.call('ZREM', recent, old)
          redis.call('DEL', p .. 'request:' .. old)
        end
      end
    end
    local room = tonumber(max_spans) - redis.call('LLEN', spans)
    for n = 1, number do
      if n <= room then redis.call('RPUSH', spans, ARGV[i + 3 + n]) end
    end
    local beyond = math.max(0, number - math.max(0, room))
    if beyond > 0 then redis.call('HINCRBY', p .. 'counts:' .. request.stream .. ':' .. request.hour, 'refused', beyond) end
    refused = refused + beyond
    redis.call('PEXPIRE', spans, silence + 86400000)
    if has_root == '1' and not request.root then
      request.root = true
      redis.call('SET', at, cjson.encode(request), 'KEEPTTL')
      redis.call('ZADD', KEYS[1], now + grace, trace)
    elseif not request.root then
      redis.call('ZADD', KEYS[1], now + silence, trace)
    end
  end
  i = i + 4 + number
end
return {late, refused}
