-- Give the next chunk of a job to one worker, for the length of a lease. While the job waits for its provider, a chunk is
-- given out only when the next probe is due and nobody else has one. A job that asks a provider never has all workers:
-- while its calls hang, one is left for jobs that need none. Chunks of `busy` systems, which other workers ask, are passed over.
-- Messages: a job has one at a time. `more`: the caller sends the next, since chunks are left. One that comes in vain is owed:
-- whoever ends its work on a chunk of the job sends it.
-- Sent again after a lost answer, it gives the same chunk. What workers before left open in the chunk is booked.
-- KEYS meta todo lease owner counters   ARGV token lease_ms max_of_a_provider busy...   -> {chunk, more} | false
local status, next_ms, provider = unpack(redis.call('HMGET', KEYS[1], 'status', 'next_ms', 'provider'))
if status ~= 'queued' and status ~= 'running' then return false end
local waiting = redis.call('LLEN', KEYS[2])
local held = redis.call('HGETALL', KEYS[4])
for i = 1, #held, 2 do
  if held[i + 1] == ARGV[1] then return {held[i], waiting > 0 and 1 or 0} end
end
if waiting == 0 then return false end
local now, leased = now_ms(), redis.call('ZCARD', KEYS[3])
if next_ms and now < tonumber(next_ms) then return false end -- the scheduler sends a message when it is due
if next_ms and leased > 0 or provider == '1' and leased >= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'owed', 1)
  return false
end
local busy = {}
for i = 4, #ARGV do busy[ARGV[i]] = true end
for _, chunk in ipairs(redis.call('LRANGE', KEYS[2], 0, #ARGV > 3 and -1 or 0)) do
  if not busy[string.match(chunk, '^(.*):%d+$')] then
    book_open(KEYS[1], KEYS[5], chunk, ARGV[1])
    redis.call('LREM', KEYS[2], 1, chunk)
    redis.call('HSET', KEYS[4], chunk, ARGV[1])
    redis.call('ZADD', KEYS[3], now + ARGV[2], chunk)
    redis.call('HSET', KEYS[1], 'claimed_ms', now)
    if status == 'queued' then redis.call('HSET', KEYS[1], 'status', 'running', 'started_ms', now) end
    if next_ms and waiting > 1 then redis.call('HSET', KEYS[1], 'owed', 1) end
    return {chunk, not next_ms and waiting > 1 and 1 or 0}
  end
end
return false
