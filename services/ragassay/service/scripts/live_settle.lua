-- Say what became of a request that is complete, once: its spans go, and its row, if it has one, waits for the next job of its
-- stream and hour. Spans that came since the caller read `number` of them are late.
-- KEYS waiting batches   ARGV prefix trace status about row number batch_ms max_rows row_bytes max_bytes
--   -> 2 if the rows that wait are enough for a job, else 1, or 0 if another was first
local p, trace, status, about, row = unpack(ARGV, 1, 5)
if redis.call('ZREM', KEYS[1], trace) == 0 then return 0 end
local spans, at = p .. 'spans:' .. trace, p .. 'request:' .. trace
local late, known = redis.call('LLEN', spans) - ARGV[6], redis.call('GET', at)
redis.call('DEL', spans)
if not known then return 0 end
local request = cjson.decode(known)
for name, value in pairs(cjson.decode(about)) do request[name] = value end
request.status = status
redis.call('SET', at, cjson.encode(request), 'KEEPTTL')
local counts = p .. 'counts:' .. request.stream .. ':' .. request.hour
redis.call('HINCRBY', counts, 'waiting', -1)
redis.call('HINCRBY', counts, status, 1)
if late > 0 then redis.call('HINCRBY', counts, 'late', late) end
if row ~= '' then
  local batch = request.stream .. ' ' .. request.hour
  local pending = p .. 'pending:' .. batch
  redis.call('HSET', pending, trace, row)
  redis.call('ZADD', KEYS[2], 'NX', now_ms() + ARGV[7], batch)
  local bytes = redis.call('INCRBY', p .. 'bytes:' .. batch, ARGV[9])
  if redis.call('HLEN', pending) >= tonumber(ARGV[8]) or bytes >= tonumber(ARGV[10]) then
    redis.call('ZADD', KEYS[2], now_ms(), batch)
    return 2
  end
end
return 1
