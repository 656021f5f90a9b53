"""A request to the manager's unix socket as a script, which a process of another user can run: PATH METHOD URL BODY."""

REQUEST = """
import http.client, socket, sys
connection = http.client.HTTPConnection("manager")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request(sys.argv[2], sys.argv[3], sys.argv[4] or None, {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status)
print(answer.read().decode())
"""
