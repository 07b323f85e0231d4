-- Give the next chunk of a job to one worker, for the length of a lease. While the job waits for its provider, a chunk is
-- given out only when the next probe is due and nobody else has one. A job that asks a provider never has all workers:
-- while its calls hang, one is left for jobs that need none. A system that is called is asked by one worker at a time, over
-- all jobs (ra:asks:<system>), so that its caps hold: the first chunk is given out whose system is free, and a job that finds
-- none is woken up when one is.
-- Sent again after a lost answer, it gives the same chunk. What workers before left open in the chunk is booked.
-- KEYS meta todo lease owner counters   ARGV token lease_ms most_of_a_provider   -> chunk | false
local status, next_ms, provider, called = unpack(redis.call('HMGET', KEYS[1], 'status', 'next_ms', 'provider', 'called'))
if status ~= 'queued' and status ~= 'running' then return false end
local held = redis.call('HGETALL', KEYS[4])
for i = 1, #held, 2 do
  if held[i + 1] == ARGV[1] then return held[i] end
end
local now = now_ms()
if next_ms and (now < tonumber(next_ms) or redis.call('ZCARD', KEYS[3]) > 0) then return false end
if provider == '1' and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[3]) then return false end
local chunk
if called == '' then
  chunk = redis.call('LPOP', KEYS[2])
else
  local free = {}
  for _, each in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    local system = string.match(each, '^(.*):%d+$')
    if free[system] == nil then
      local turn = 'ra:asks:' .. system
      free[system] = not string.find(called, ',' .. system .. ',', 1, true)
        or redis.call('SET', turn, ARGV[1], 'NX', 'PX', ARGV[2]) ~= false
      if not free[system] then
        redis.call('ZADD', turn .. ':waiting', 'NX', now, string.match(KEYS[1], '{(.*)}'))
        redis.call('EXPIRE', turn .. ':waiting', 86400)
      end
    end
    if free[system] then
      redis.call('LREM', KEYS[2], 1, each)
      chunk = each
      break
    end
  end
end
if not chunk then return false end
redis.call('HSET', KEYS[4], chunk, ARGV[1])
redis.call('ZADD', KEYS[3], now + ARGV[2], chunk)
redis.call('HSET', KEYS[1], 'claimed_ms', now)
book_open(KEYS[1], KEYS[5], chunk, ARGV[1])
if status == 'queued' then redis.call('HSET', KEYS[1], 'status', 'running', 'started_ms', now) end
return chunk
