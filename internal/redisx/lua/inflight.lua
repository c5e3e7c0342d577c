-- An InFlight limit, which has no record of its own: it counts what its pair holds.
local inFlight = {size = 0, replied = 3}

function inFlight.load()
  return false
end

function inFlight.wait(_, _, l, _, cost)
  return cost > l.capacity and -1 or 0
end

function inFlight.charge()
  return 0
end

inFlight.refund = inFlight.charge
inFlight.grant = inFlight.charge

function inFlight.report()
  return 0, 0
end

function inFlight.ends()
  return 0
end
