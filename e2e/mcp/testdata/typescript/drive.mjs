// Calls the tool "search" until it is denied, waits as long as the error says, and calls it once more. The arguments are the URL of
// a server or the path of a program that serves on its standard input and output. Prints a line of JSON for the denial, and one for the
// call after it.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [server] = process.argv.slice(2);
const transport = server.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(server))
  : new StdioClientTransport({ command: server, env: process.env });
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);
const call = () => client.callTool({ name: "search", arguments: {} });

for (let i = 0; i < 100; i++) {
  try {
    await call();
  } catch ({ code, message, data }) {
    console.log(JSON.stringify({ code, message, data }));
    await new Promise((resolve) => setTimeout(resolve, data.retryAfterSeconds * 1000));
    break;
  }
}
const { content } = await call();
console.log(JSON.stringify({ message: content[0].text }));
await client.close();
