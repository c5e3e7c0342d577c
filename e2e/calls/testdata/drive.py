"""Calls a method and prints an object for each call: drive.py ADDRESS METHOD CALLS. With RETRY=1 it retries."""
import json
import os
import sys

import grpc

address, method, calls = sys.argv[1:]
policy = {"maxAttempts": 5, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}
options = [("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0)]
if os.environ.get("RETRY"):
    config = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})
    options = [("grpc.service_config", config), ("grpc.enable_http_proxy", 0)]
channel = grpc.insecure_channel(address, options)
call = channel.unary_unary(method)
request = bytes.fromhex(os.environ.get("MESSAGE", ""))
for _ in range(int(calls)):
    seen = {"code": 0}
    try:
        call(request, timeout=30)
    except grpc.RpcError as e:
        trailer = dict(e.trailing_metadata())
        seen = {
            "code": e.code().value[0],
            "details": trailer.get("grpc-status-details-bin", b"").hex(),
            "pushback": trailer.get("grpc-retry-pushback-ms", ""),
            "remaining": trailer.get("x-ratelimit-remaining", ""),
        }
    print(json.dumps(seen))
channel.close()
