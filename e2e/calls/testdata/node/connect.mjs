// Calls each method of auth.v1.Auth by each protocol, and prints an object for each call: node connect.mjs DESCRIPTORS SERVER... A server
// is an address; grpc:ADDRESS is one that knows no other protocol.
import { readFileSync } from 'node:fs'
import { createFileRegistry, fromBinary, toJson } from '@bufbuild/protobuf'
import { anyPack, AnySchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import { ConnectError, createClient } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node'

const [file, ...servers] = process.argv.slice(2)
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(file)))
const message = { value: 'right' }
async function* messages() { yield message }
async function read(stream) { for await (const _ of stream); }
const methods = {
  Unary: (client) => client.unary(message),
  ClientStream: (client) => client.clientStream(messages()),
  ServerStream: (client) => read(client.serverStream(message)),
  Bidi: (client) => read(client.bidi(messages())),
}

for (const [server, name] of servers.entries()) {
  const baseUrl = `http://${name.replace('grpc:', '')}`
  const http2 = { baseUrl, httpVersion: '2', defaultTimeoutMs: 30_000 }
  const http1 = { baseUrl, httpVersion: '1.1', defaultTimeoutMs: 30_000 }
  const transports = { gRPC: createGrpcTransport(http2) }
  if (!name.startsWith('grpc:')) {
    Object.assign(transports, {
      Connect: createConnectTransport(http2),
      'Connect in JSON by HTTP/1.1': createConnectTransport({ ...http1, useBinaryFormat: false }),
      'Connect by GET': createConnectTransport({ ...http2, useHttpGet: true }),
      'gRPC-Web': createGrpcWebTransport(http2),
      'gRPC-Web by HTTP/1.1': createGrpcWebTransport(http1),
    })
  }
  for (const [transport, t] of Object.entries(transports)) {
    const client = createClient(registry.getService('auth.v1.Auth'), t)
    for (const [kind, call] of Object.entries(methods)) {
      if (kind === 'Bidi' && transport.endsWith('HTTP/1.1') || kind !== 'Unary' && transport.endsWith('GET')) continue
      let status = {}
      try {
        await call(client)
      } catch (err) {
        const { code, rawMessage, cause } = ConnectError.from(err)
        const details = ConnectError.from(err).findDetails(registry)
          .map((d) => toJson(AnySchema, anyPack(registry.getMessage(d.$typeName), d), { registry }))
        status = { code, message: rawMessage + (cause ? `: ${cause}` : ''), details }
      }
      console.log(JSON.stringify({ server, client: transport, kind, status }))
    }
  }
}
process.exit() // sessions of HTTP/2 stay open
