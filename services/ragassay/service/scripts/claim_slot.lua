-- Claim a time of a schedule, at most once, and set when it is due next.
-- KEYS schedules due runs unstarted   ARGV name record due_ms next_ms slot_ms entry look_ms
-- -> 1, or 0 if the time was claimed before, the schedule was changed, or another scheduler was first
-- due_ms '': a run by hand, so the schedule stays due when it was; next_ms '': never again
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then
  local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if not due or tonumber(due) ~= tonumber(ARGV[3]) then return 0 end
  if ARGV[4] == '' then redis.call('ZREM', KEYS[2], ARGV[1])
  else redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1]) end
end
if redis.call('HSETNX', KEYS[3], ARGV[5], ARGV[6]) == 0 then return 0 end
redis.call('ZADD', KEYS[4], ARGV[7], ARGV[1] .. ' ' .. ARGV[5])
return 1
