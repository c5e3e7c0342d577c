// Calls a method without retries, and prints an object for each call: node grpcjs.mjs ADDRESS METHOD CALLS. With RETRY=1 it retries.
import grpc from '@grpc/grpc-js'

const [address, method, calls] = process.argv.slice(2)
const retryPolicy = {
  maxAttempts: 5, initialBackoff: '3600s', maxBackoff: '3600s', backoffMultiplier: 1, retryableStatusCodes: ['RESOURCE_EXHAUSTED'],
}
const options = process.env.RETRY ? { 'grpc.service_config': JSON.stringify({ methodConfig: [{ name: [{}], retryPolicy }] }) } : { 'grpc.enable_retries': 0 }
const client = new grpc.Client(address, grpc.credentials.createInsecure(), options)
const request = Buffer.from(process.env.MESSAGE ?? '', 'hex')
const same = (bytes) => bytes

for (let i = 0; i < Number(calls); i++) {
  await new Promise((done) => {
    const deadline = Date.now() + 30_000
    client.makeUnaryRequest(method, same, same, request, new grpc.Metadata(), { deadline }, (err) => {
      const trailer = err?.metadata
      console.log(JSON.stringify({
        code: err?.code ?? 0,
        details: trailer?.get('grpc-status-details-bin')[0]?.toString('hex') ?? '',
        pushback: trailer?.get('grpc-retry-pushback-ms')[0] ?? '',
        remaining: trailer?.get('x-ratelimit-remaining')[0] ?? '',
      }))
      done()
    })
  })
}
client.close()
