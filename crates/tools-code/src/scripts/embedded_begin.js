// Runs the script in the engine that is built into Handfast. The host hands in what the engine itself lacks.
((host) => {
"use strict";

function send(message) {
  host.send(JSON.stringify(message));
}

function receive() {
  const line = host.receive();
  if (line === undefined) {
    throw new ToolError({ code: "ECANCELLED", message: "Handfast has ended this script" });
  }
  return JSON.parse(line);
}

function describedTools() {
  return host.tools;
}

