-- Decide which wake-ups of a job have to be sent: those never sent, or sent so long ago that they must be lost. None for a
-- report that a worker is making.
-- KEYS meta todo slots report_lock   ARGV slots patience_ms nonce   -> {slot numbers}
local status = redis.call('HGET', KEYS[1], 'status')
local due = {}
local waiting = redis.call('LLEN', KEYS[2])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if status == 'finalizing' then
  waiting = 1 - redis.call('EXISTS', KEYS[4])
elseif status ~= 'queued' and status ~= 'running' then waiting = 0 end
local next_ms = redis.call('HGET', KEYS[1], 'next_ms')
if next_ms and status ~= 'finalizing' then -- while a provider fails: one message when it is due
  waiting = now >= tonumber(next_ms) and math.min(waiting, 1) or 0
end
for slot = 0, math.min(tonumber(ARGV[1]), waiting) - 1 do
  local sent = redis.call('HGET', KEYS[3], slot)
  if not sent or now - string.match(sent, '^(%d+)') > tonumber(ARGV[2]) then
    redis.call('HSET', KEYS[3], slot, string.format('%.0f', now) .. ':' .. ARGV[3])
    table.insert(due, slot)
  end
end
return due
