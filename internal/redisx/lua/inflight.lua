-- An InFlight limit, which has no record of its own: it counts what its pair holds.
local inFlight = {size = 0}

function inFlight.load()
  return false
end

function inFlight.wait()
  return 0
end

function inFlight.charge()
end

inFlight.refund = inFlight.charge
inFlight.grant = inFlight.charge

function inFlight.report()
  return 0, 0, 0
end

function inFlight.ends()
  return 0
end
