import t from 'tap'
import { createServer } from 'node:http'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { WebSocket } from 'ws'
import { readJoinToken } from '../../plugins/cluster/identity/join-tokens.js'
import { ask, call } from './http.js'
import { faultsConfig, figure, folder, startNode, svc, until } from './kit.js'
import { cmdline, descendants } from './proc.js'
import { harmless, routesOf, SESSION, tokenWith } from './routes.js'
import type { AddressInfo } from 'node:net'

const TTS = 'tts@1.0.0'

t.test('T-H13: tokens, prompts and keys leave no trace', async (t) => {
  const received: string[] = []
  const sink = createServer((req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => { parts.push(part) })
    req.on('end', () => {
      const body = Buffer.concat(parts)
      received.push((req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body).toString())
      res.end('{}')
    })
  })
  await new Promise<void>((resolve) => { sink.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { sink.close(); sink.closeAllConnections() })
  const { port } = sink.address() as AddressInfo
  const node = await startNode(t, { env: { CANARY_KEY: 'canarykey0987654321', SVC_LOGGING_LEVEL: 'trace' },
    config: faultsConfig({ logging: { enabled: true, ingest_url: `http://127.0.0.1:${port}/in` } },
      { autoplace: ['test/ok', 'svc/voice-en'] }) })
  const prompt = 'canaryprompt1234567890'
  const app = await tokenWith(node, ['read', 'invoke'])
  const { token } = (await ask(node, '/cluster/join-tokens', { body: { local: true } })).json as
    { token: string }
  const secrets = { prompt, app, operator: node.token, key: 'canarykey0987654321',
    typo: `${app.slice(0, -2)}xx`, join: token, joinSecret: readJoinToken(token, 0).secret }
  const wrong = await svc(['status', '--home', node.home, '--token', secrets.typo])
  t.equal(wrong.status, 5)
  t.notMatch(wrong.stderr + wrong.stdout, new RegExp(secrets.typo),
    'the CLI does not print what it was given')
  const bodies = [
    { model: 'svc/voice-en', text: prompt }, { model: prompt, text: prompt }, { model: 'test/ok',
      text: prompt, speed: prompt },
    { model: 'svc/voice-en', text: `${prompt} 今日`, voice: prompt },
    ...['throws', 'offSchema', 'exit', 'count'].map((what) => ({ model: 'test/ok', text: prompt,
      instruct: JSON.stringify({ do: what, chunks: 1 }) }))
  ]
  for (const payload of bodies) {
    await ask(node, '/v1/capabilities/stream', { token: app, body: call(node, TTS, payload),
      headers: { accept: 'text/event-stream' } }).catch(() => {})
    await ask(node, '/v1/audio/speech', { token: app, body: { model: payload.model, input: payload.text,
      instructions: prompt } }).catch(() => {})
  }
  await until('the runner is back', async () => (await ask(node, '/readyz')).status === 200)
  for (const route of await routesOf(node)) {
    const { path, ask: options } = harmless(route)
    if (route.path === SESSION) continue
    await ask(node, path, { ...options, headers: { authorization: `Bearer ${secrets.typo}` }, token: null })
    await ask(node, path, { ...options, token: app, headers: { 'x-api-key': secrets.key,
      cookie: `sid=${secrets.key}` } })
    await ask(node, `${path}${path.includes('?') ? '&' : '?'}prompt=${prompt}&key=${secrets.key}`,
      { ...options, token: node.token })
    await ask(node, path, { ...options, raw: `{"token":"${app}","prompt":"${prompt}"`, token: app })
  }
  for (const [token, opens] of [[app, true], [secrets.typo, false]] as const) {
    for (const path of [SESSION, '/state/sync']) {
      const socket = new WebSocket(node.url.replace('http', 'ws') + path, ['svc', `svc.bearer.${token}`])
      t.equal(await new Promise((resolve) => {
        socket.on('open', () => { resolve(true) }).on('error', () => { resolve(false) })
      }), opens, `${path} with a token among the subprotocols`)
      socket.terminate()
    }
  }
  const said = await svc(['say', prompt, '-o', join(folder(t), 'x.mp3'), '--home', node.home, '--token', app])
  t.equal(said.status, 0)
  await until('log lines at the receiver', () => received.join('').includes('a task failed'))
  // Reads the command line, as `ps` shows it, and the environment of each running process.
  const seen = Object.fromEntries([node.child.pid, node.pid, ...descendants(node.pid)].flatMap((pid) =>
    ['cmdline', 'environ'].map((what) => [`${what} of ${pid}, ${cmdline(pid)}`, ofProcess(pid, what)])))
  node.child.process.kill('SIGTERM')
  t.equal(await node.child.ended, 0)
  const places: Record<string, string> = { stdout: node.child.stdout(), stderr: node.child.stderr(),
    receiver: received.join(''), ...filesOf(node.home) }
  let looked = 0
  for (const [place, text] of Object.entries(places)) {
    for (const [name, secret] of Object.entries(secrets)) {
      looked++
      t.notOk(text.includes(secret), `${name} in ${place}: ${around(text, secret)}`)
    }
  }
  for (const [place, text] of Object.entries(seen)) {
    for (const [name, secret] of Object.entries(secrets)) {
      // The node got the key in an environment variable, so its environment shows the key.
      if (name !== 'key') t.notOk(text.includes(secret), `${name} in the ${place}`)
    }
  }
  const read = Object.values(seen).filter((text) => text.length > 0)
  t.ok(read.length > 4, `of launcher, node and ${read.length / 2 - 2} more`)
  t.ok(places['stdout']!.split('\n').length > 20 && places['receiver']!.length > 1000,
    'there was something to look through')
  t.notOk(Object.keys(places).some((p) => p.includes(prompt)), 'no file is named after it')
  figure(t, 'T-H13', t.passing(), { places: Object.keys(places).length, looked })
})

/** A file under /proc/PID; empty if the process has exited. */
function ofProcess (pid: number, what: string): string {
  try { return readFileSync(`/proc/${pid}/${what}`, 'latin1') } catch { return '' }
}

const around = (text: string, secret: string): string => {
  const at = text.indexOf(secret)
  return at < 0 ? 'absent' : JSON.stringify(text.slice(Math.max(0, at - 120), at + 40))
}

/** Contents of every file under a folder except the operator's token. */
function filesOf (home: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const name of readdirSync(home, { recursive: true }) as string[]) {
    const path = join(home, name)
    if (name === 'operator.token' || !statSync(path, { throwIfNoEntry: false })?.isFile()) continue
    found[name] = readFileSync(path, 'latin1')
  }
  return found
}
