// A minimal proxy that parses and rewrites each event of a streamed answer, to measure the least possible CPU
// time per token. Arguments: llama-server's port, its API key, the proxy's port.
import http from 'node:http'

const [port, key, own] = process.argv.slice(2)
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })

http.createServer((req, res) => {
  const asked = http.request({ agent, port, method: req.method, path: req.url,
    headers: { 'content-type': 'application/json', 'authorization': `Bearer ${key}` } }, (answer) => {
    res.writeHead(answer.statusCode, { 'content-type': 'text/event-stream' })
    let rest = ''
    answer.setEncoding('utf8')
    answer.on('data', (text) => {
      const events = (rest + text).split('\n\n')
      rest = events.pop()
      for (const event of events) {
        const data = event.slice('data: '.length)
        res.write(data.startsWith('{') ? `data: ${JSON.stringify(JSON.parse(data))}\n\n` : `${event}\n\n`)
      }
    })
    answer.on('end', () => { res.end() })
  })
  req.pipe(asked)
}).listen(Number(own), '127.0.0.1')
