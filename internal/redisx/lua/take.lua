-- Decides requests, one after the other, each all or nothing by itself. See core/deciding.go.
--
-- ARGV: the shift of the clock, then the text of each meter.
-- Returns the instant, how many states were repaired, and four numbers for each meter: retry, remaining, refill, reset.

-- chargeAll charges the dry runs of a request or the others. A claim is charged if all its limits admit its cost.
local function chargeAll(meters, now, dryRun)
  local i = 1
  while i <= #meters do
    local fits, claim = true, i
    repeat
      fits = fits and meters[i].retry == 0
      i = i + 1
    until i > #meters or meters[i].new ~= '0'
    for j = claim, i - 1 do
      local t = meters[j]
      if fits and t.dryRun == dryRun and not t.peek then
        reopen(t, now)
        charge(t, now)
      end
    end
  end
end

-- decideAll decides a request, charges none of it unless every enforced meter admits its cost, and then charges the dry
-- runs that fit as well.
local function decideAll(meters, now)
  local admitted = true
  local dryRuns = false
  for i = 1, #meters do
    local t = meters[i]
    open(t, now)
    if t.dryRun then
      dryRuns = true
    else
      decide(t, now)
      admitted = admitted and t.retry == 0
    end
  end
  if admitted then
    chargeAll(meters, now, false)
  end
  if not dryRuns then
    return
  end
  for i = 1, #meters do
    local t = meters[i]
    if t.dryRun then
      reopen(t, now)
      decide(t, now)
    end
  end
  if admitted then
    chargeAll(meters, now, true)
  end
end

local now = clock()
local reply = {now, 0}
local i = 2
while ARGV[i] do
  local meters = {newMeter(ARGV[i])}
  i = i + 1
  while ARGV[i] and sub(ARGV[i], 1, 1) ~= '2' do
    meters[#meters + 1] = newMeter(ARGV[i])
    i = i + 1
  end
  decideAll(meters, now)
  report(meters, now, reply)
end
saveAll(now)
reply[2] = repaired
return reply
