-- Lease a webhook to one worker and hand out what it has to get first. A try is counted before it is made, so that one
-- which kills its worker does not go on for ever. A webhook that is disabled keeps what waits for it.
-- KEYS webhook queue   ARGV prefix token lease_ms most_tries   -> {delivery, name, value, ...} | false
local enabled, holder, until_ms = unpack(redis.call('HMGET', KEYS[1], 'enabled', 'lease_token', 'lease_ms'))
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local held = until_ms and now < tonumber(until_ms) and tonumber(until_ms) <= now + ARGV[3] -- else the clock was set back
if held and holder ~= ARGV[2] then return false end
if enabled == '1' then
  for _, delivery in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', t[1] * 1000 + t[2] / 1000)) do
    local key = ARGV[1] .. 'delivery:' .. delivery
    local tries = tonumber(redis.call('HGET', key, 'tries'))
    if not tries then
      redis.call('ZREM', KEYS[2], delivery) -- its time was over
    elseif tries >= tonumber(ARGV[4]) then
      redis.call('ZREM', KEYS[2], delivery)
      redis.call('HSET', key, 'status', 'failed', 'last_error', 'a worker died in the last try')
    else
      redis.call('HSET', KEYS[1], 'lease_token', ARGV[2], 'lease_ms', now + ARGV[3])
      redis.call('HINCRBY', key, 'tries', 1)
      local answer = redis.call('HGETALL', key)
      table.insert(answer, 1, delivery)
      return answer
    end
  end
end
if holder == ARGV[2] then redis.call('HDEL', KEYS[1], 'lease_token', 'lease_ms') end
return false
