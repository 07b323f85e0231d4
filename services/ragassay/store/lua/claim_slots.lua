-- Claim times of a schedule, each at most once, and set when it is due next.
-- KEYS schedules due runs open   ARGV name record due_ms next_ms {slot_ms run look_ms}...
-- -> the slots that were not claimed before, or nil where the schedule was changed, or another beat was first
-- due_ms '': somebody asks for a run, so the schedule stays due when it was; next_ms '': never again
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return nil end
if ARGV[3] ~= '' then
  local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if not due or tonumber(due) ~= tonumber(ARGV[3]) then return nil end
  if ARGV[4] == '' then redis.call('ZREM', KEYS[2], ARGV[1])
  else redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1]) end
end
local new = {}
for i = 5, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[3], ARGV[i], ARGV[i + 1]) == 1 then
    redis.call('ZADD', KEYS[4], ARGV[i + 2], ARGV[1] .. ' ' .. ARGV[i])
    table.insert(new, ARGV[i])
  end
end
return new
