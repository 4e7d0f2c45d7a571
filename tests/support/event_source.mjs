// Prints what an EventSource gets: "<id> <type>" for an event, "state <n>" for an error.
const source = new EventSource(process.argv[2]);
source.onmessage = (event) => console.log(event.lastEventId, JSON.parse(event.data).type);
source.onerror = () => {
  console.log("state", source.readyState);
  if (source.readyState === EventSource.CLOSED) process.exit(0);
};
setInterval(() => {}, 1000); // the wait before a reconnection does not keep Node alive
