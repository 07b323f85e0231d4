-- Decide which doorbells of a job have to be rung: those never rung, or rung so long ago that they must be lost.
-- KEYS meta todo bells   ARGV bells patience_ms nonce   -> {bell numbers}
local status = redis.call('HGET', KEYS[1], 'status')
local due = {}
local waiting = redis.call('LLEN', KEYS[2])
if status == 'finalizing' then waiting = 1
elseif status ~= 'queued' and status ~= 'running' then waiting = 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for bell = 0, math.min(tonumber(ARGV[1]), waiting) - 1 do
  local rung = redis.call('HGET', KEYS[3], bell)
  if not rung or now - tonumber(string.match(rung, '^(%d+)')) > tonumber(ARGV[2]) then
    redis.call('HSET', KEYS[3], bell, string.format('%.0f', now) .. ':' .. ARGV[3])
    table.insert(due, bell)
  end
end
return due
