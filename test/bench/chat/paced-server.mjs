/**
 * Stands in for llama.cpp's server on fast hardware: every stream gets its tokens at an even pace, in events
 * like those that the real server sends. `PACE` in the prompt sets the tokens per second of that stream.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const args = process.argv.slice(2)
const FLAGS = ['--model', '--host', '--port', '--ctx-size', '--parallel', '--threads', '--api-key-file',
  '--no-ui', '--jinja', '--offline', '--no-context-shift', '--cache-ram', '--n-gpu-layers', '--device',
  '--embeddings']
if (args.includes('--help')) {
  for (const flag of FLAGS) console.log(`${flag} X   an option`)
  console.log('    ip address to listen, or a UNIX socket path ending in .sock')
  process.exit(0)
}
if (args.includes('--list-devices')) {
  console.log('Available devices:')
  process.exit(0)
}
const option = (name) => args[args.indexOf(name) + 1]
const contextLength = Number(option('--ctx-size')) / Number(option('--parallel'))
/** All streams get their tokens in one wakeup, as if a GPU computed them in one batch. */
const STEP_MS = 10

const streams = new Set()
let last = performance.now()
setInterval(() => {
  const now = performance.now()
  const seconds = (now - last) / 1000
  last = now
  for (const stream of streams) stream.advance(seconds)
}, STEP_MS)

const event = (fields) => `data: ${JSON.stringify(fields)}\n\n`
const head = {
  id: 'chatcmpl-0123456789abcdefghijklmnopqrstuv', object: 'chat.completion.chunk', created: 1, model: 'm',
  system_fingerprint: 'b1-0000000'
}
const chunk = (delta, finish = null) =>
  event({ choices: [{ finish_reason: finish, index: 0, delta }], ...head })

function answer (response, { messages, max_tokens: most }) {
  const rate = Number(/PACE (\d+)/.exec(JSON.stringify(messages))[1])
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(chunk({ role: 'assistant', content: null }))
  let [due, sent] = [0, 0]
  const stream = {
    advance (seconds) {
      due = Math.min(most, due + rate * seconds)
      for (; sent < Math.floor(due); sent++) response.write(chunk({ content: ' word' }))
      if (sent < most) return
      streams.delete(stream)
      response.write(chunk({}, 'length'))
      const usage = { completion_tokens: most, prompt_tokens: 8, total_tokens: most + 8 }
      const timings = { cache_n: 0, prompt_n: 8, predicted_n: most, predicted_per_second: rate }
      response.end(`${event({ choices: [], ...head, usage, timings })}data: [DONE]\n\n`)
    }
  }
  response.on('close', () => { streams.delete(stream) })
  streams.add(stream)
}

readFileSync(option('--api-key-file'))
const server = createServer(async (request, response) => {
  const parts = []
  for await (const part of request) parts.push(part)
  const json = (fields) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(fields))
  }
  if (request.url.startsWith('/health')) return json({ status: 'ok' })
  if (request.url === '/props') {
    return json({ default_generation_settings: { n_ctx: contextLength }, chat_template: '' })
  }
  const body = JSON.parse(Buffer.concat(parts))
  if (request.url === '/v1/chat/completions') return answer(response, body)
  // The warm-up request that a runner sends after its start.
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(event({ content: ' word', stop: true, tokens_predicted: 1, stop_type: 'limit', timings: {} }))
})
if (option('--host').endsWith('.sock')) server.listen(option('--host'))
else server.listen(Number(option('--port')), option('--host'))
