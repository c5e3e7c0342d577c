-- A request that is not plain is decided on its own: read, decided, written. See core/deciding.go.

-- chargeSome charges the dry runs of a request or the others. A claim is charged if all its limits admit its cost.
local function chargeSome(meters, now, dryRun)
  local i = 1
  while i <= #meters do
    local fits, claim = true, i
    repeat
      fits = fits and meters[i].retry == 0
      i = i + 1
    until i > #meters or meters[i].new
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
    chargeSome(meters, now, false)
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
    chargeSome(meters, now, true)
  end
end

-- decideOne decides and writes a request, whose keys begin at KEYS[first].
local function decideOne(plan, first, now)
  pairsOf = {}
  local meters = newMeters(plan, first)
  decideAll(meters, now)
  saveAll(now)
  report(meters, now)
end
