-- Return a chunk that could not be finished to the head of the list.
-- 'died': it counts as a death, with `why`; after too many the chunk is not given out any more: its lease has ended, so that
-- the scheduler fails its rows. 'wait': its provider fails, and no chunk is given out until the next probe; when the provider
-- has failed for too long, it is given up for the whole job, and the caller keeps its chunk.
-- KEYS meta todo lease owner dead   ARGV chunk token 'back' | 'died' | 'wait' why max_deaths wait_ms give_up_ms   -> 'released' | 'given up' | 'stale'
local meta, chunk, how, why = KEYS[1], ARGV[1], ARGV[3], ARGV[4]
if redis.call('HGET', KEYS[4], chunk) ~= ARGV[2] then return 'stale' end
if how == 'died' then
  redis.call('HSET', KEYS[5], 'why:' .. chunk, why)
  if redis.call('HINCRBY', KEYS[5], chunk, 1) >= tonumber(ARGV[5]) then
    redis.call('ZADD', KEYS[3], 0, chunk)
    return 'released'
  end
elseif how == 'wait' then
  local now = now_ms()
  local since = tonumber(redis.call('HGET', meta, 'waiting_since_ms') or now)
  local left = since + tonumber(ARGV[7]) - now
  if redis.call('HEXISTS', meta, 'given_up') == 1 or left <= 0 then
    redis.call('HSETNX', meta, 'given_up', why)
    redis.call('HDEL', meta, 'waiting', 'waiting_since_ms', 'probes', 'next_ms')
    return 'given up'
  end
  redis.call('HSET', meta, 'waiting', why, 'waiting_since_ms', since, 'next_ms', now + math.min(tonumber(ARGV[6]), left))
  redis.call('HINCRBY', meta, 'probes', 1)
end
redis.call('HDEL', KEYS[4], chunk)
redis.call('ZREM', KEYS[3], chunk)
put_back(meta, KEYS[2], chunk)
if how == 'wait' then redis.call('HDEL', meta, 'owed') end -- the scheduler sends a message when the probe is due
return 'released'
