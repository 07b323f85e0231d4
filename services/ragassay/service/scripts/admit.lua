-- Let a request of a key through, or say how many milliseconds to wait and for whose limit: the key's or its project's. Both
-- are counted or neither (GCRA: so many a minute, of which a sixth may come at once). The key's last use is written down at
-- most once in a while.
-- KEYS key limit_of_key limit_of_project   ARGV a_minute_of_key a_minute_of_project used_every_ms   -> {wait_ms, 1 | 2} | false
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local due, wait, whose = {}, 0, 0
for i = 1, 2 do
  local rate = tonumber(ARGV[i])
  if rate > 0 then
    local interval = 60000000 / rate
    local tolerance = interval * math.max(1, math.floor(rate / 6))
    local at = math.max(now, tonumber(redis.call('GET', KEYS[i + 1]) or 0))
    due[i] = at + interval
    if due[i] - now - tolerance > wait then wait, whose = due[i] - now - tolerance, i end
  end
end
if whose > 0 then return {math.ceil(wait / 1000), whose} end
for i, at in pairs(due) do
  redis.call('SET', KEYS[i + 1], string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000))
end
local ms = math.floor(now / 1000)
if redis.call('EXISTS', KEYS[1]) == 1 and ms - tonumber(redis.call('HGET', KEYS[1], 'used_ms') or 0) >= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'used_ms', string.format('%.0f', ms))
end
return false
