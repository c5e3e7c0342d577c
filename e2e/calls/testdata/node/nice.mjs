// Calls a method and prints an object for each call: node nice.mjs ADDRESS METHOD CALLS. RETRY has options of the retry middleware, in JSON.
import { createChannel, createClientFactory } from 'nice-grpc'
import { retryMiddleware } from 'nice-grpc-client-middleware-retry'
import { errorDetailsClientMiddleware } from 'nice-grpc-error-details'

const [address, path, calls] = process.argv.slice(2)
const same = (bytes) => bytes
const method = {
  path, requestStream: false, responseStream: false, options: {},
  requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same,
}
const channel = createChannel(address)
const client = createClientFactory().use(errorDetailsClientMiddleware).use(retryMiddleware).create({ call: method }, channel)
const request = Buffer.from(process.env.MESSAGE ?? '', 'hex')

// json returns a detail of an error as the JSON of google.protobuf.Any.
const json = ({ $type, retryDelay, ...fields }) => ({
  '@type': `type.googleapis.com/${$type}`, ...fields,
  ...(retryDelay && { retryDelay: `${retryDelay.seconds + retryDelay.nanos / 1e9}s` }),
})

for (let i = 0; i < Number(calls); i++) {
  let retries = 0
  let status = {}
  try {
    const onRetryableError = () => { retries++ }
    await client.call(request, { ...JSON.parse(process.env.RETRY ?? '{}'), onRetryableError, signal: AbortSignal.timeout(30_000) })
  } catch (err) {
    status = { code: err.code, message: err.details, details: (err.extra ?? []).map(json) }
  }
  console.log(JSON.stringify({ retries, status }))
}
channel.close()
