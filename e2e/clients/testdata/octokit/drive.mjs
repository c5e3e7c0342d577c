// Sends requests one after the other to the server named by the first argument, as many as the second says, with
// Octokit's throttling plugin. Prints a line of JSON for each request that was rate limited, and one for each response.
import { Octokit } from "@octokit/core";
import { throttling } from "@octokit/plugin-throttling";

const [baseUrl, count] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const octokit = new (Octokit.plugin(throttling))({
  baseUrl,
  throttle: {
    onRateLimit: (retryAfter, options, _octokit, retryCount) => {
      say({ event: "rate limit", retryAfter, retryCount });
      return retryCount < 1;
    },
    onSecondaryRateLimit: (retryAfter) => {
      say({ event: "secondary rate limit", retryAfter });
      return false;
    },
  },
});

for (let i = 0; i < Number(count); i++) {
  try {
    const { status, headers } = await octokit.request("GET /");
    say({ event: "response", status, remaining: headers["x-ratelimit-remaining"] });
  } catch (error) {
    say({ event: "error", status: error.status, message: error.message });
  }
}
