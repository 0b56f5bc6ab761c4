import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { WebSocket } from 'ws'
import { quiet, startCluster } from './cluster-kit.js'
import { ask, refusal, type Answer } from './http.js'
import { cleanEnv, cli, faultsConfig, folder, root, run, startNode, svc, until, writeConfig } from './kit.js'
import { tokenWith } from './routes.js'
import { pinOf } from '../../kernel/http/tls/pin.js'
import type { TestNode } from './kit.js'

interface UpLine { url: string, fingerprint?: string, authority?: string }

/** The line with the URL in a node's JSON output, parsed. */
const upLine = (node: TestNode): UpLine => JSON.parse(node.child.stdout().split('\n')
  .find((line) => line.startsWith('{"url"'))!) as UpLine

/** Fingerprint of the key that a port presents now. */
const shownAt = (port: number): Promise<string> => new Promise((resolve, reject) => {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
    resolve(pinOf(socket.getPeerX509Certificate()!))
    socket.destroy()
  })
  socket.on('error', reject)
})

/** The output of `svc mcp` for a tools/list request. */
async function toolsOver (args: string[]): Promise<string> {
  const child = spawn(process.execPath, [cli, 'mcp', ...args],
    { env: cleanEnv(), stdio: ['pipe', 'pipe', 'ignore'] })
  let text = ''
  child.stdout.on('data', (bytes) => { text += String(bytes) })
  const clientInfo = { name: 'test', version: '1' }
  for (const message of [
    { id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo } },
    { method: 'notifications/initialized' }, { id: 2, method: 'tools/list' }
  ]) child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const answer = await until('its tools', () => text.split('\n').find((line) => line.includes('"id":2')))
  child.stdin.end()
  return answer
}

/** Whether a program is installed on this machine. */
const has = (command: string): boolean => spawnSync(command, ['--version']).status === 0

t.test('api.tls: self', async (t) => {
  const node = await startNode(t, { config: faultsConfig({ api: { tls: 'self' } }) })
  const { url, fingerprint, authority } = upLine(node)
  const away = join(folder(t), 'away')

  await t.test('the node\'s description of itself', async (t) => {
    t.match(url, /^https:\/\/127\.0\.0\.1:/)
    t.equal(authority, join(node.home, 'api-ca.crt'))
    t.equal(await shownAt(node.port), fingerprint)
    const state = (await ask(node, '/state')).json as { nodeIdentities: Record<string, { apiUrl: string }> }
    t.equal(state.nodeIdentities[node.nodeId]!.apiUrl, url)
    const { servers } = (await ask(node, '/openapi.json')).json as
      { servers: { variables: { scheme: { default: string } } }[] }
    t.equal(servers[0]!.variables.scheme.default, 'https')
    t.equal(refusal(await ask({ url: url.replace('https', 'http') }, '/state'))?.reason, 'tls_required')
    t.match(refusal(await ask(node, '/state', { headers: { origin: url.replace('https', 'http') } })),
      { reason: 'foreign_origin' })
    t.equal((await ask(node, '/state', { headers: { origin: url } })).status, 200, 'a page of its own')
  })

  await t.test('svc on the same home trusts its own node, and sends it the token', async (t) => {
    t.equal((await svc(['status', '--home', node.home])).status, 0)
    const doctor = await svc(['doctor', '--home', node.home])
    t.ok(doctor.stdout.includes(fingerprint!), 'doctor names the fingerprint')
    t.equal((await svc(['token', 'ls', '--home', node.home])).status, 0)
  })

  await t.test('svc from another home', async (t) => {
    const from = (...args: string[]): ReturnType<typeof svc> =>
      svc([...args, '--home', away, '--url', url, '--token', node.token])
    const first = await from('status')
    t.equal(first.status, 1)
    t.ok(first.stderr.includes(`--fingerprint ${fingerprint!}`), first.stderr)
    t.equal((await from('status', '--fingerprint', `sha256//${'A'.repeat(43)}=`)).status, 1)
    t.equal((await from('status', '--fingerprint', fingerprint!)).status, 0)
    const all = [['nodes'], ['capabilities'], ['state'], ['events'], ['complete-words', 'call', '']]
    for (const words of all) {
      t.equal((await from(...words)).status, 0, `${words.join(' ')}: known from then on`)
    }
    const follow = run(process.execPath, [cli, 'state', '--follow', '--json', '--home', away, '--url', url])
    await until('the whole state by a socket', () => follow.stdout().includes(node.nodeId))
    follow.process.kill('SIGINT')
    await follow.ended
    t.match(await toolsOver(['--home', away, '--url', url]), /"tools":\[/, 'MCP on stdin and stdout')
    t.equal((await svc(['known', 'rm', `127.0.0.1:${node.port}`, '--home', away])).status, 0)
    t.equal((await from('status')).status, 1, 'forgotten')
    const vouched = { env: { NODE_EXTRA_CA_CERTS: authority! } }
    t.equal((await svc(['status', '--home', away, '--url', url], vouched)).status, 0,
      'an authority that the system trusts needs no fingerprint')
    t.notMatch((await svc(['known', 'ls', '--home', away])).stdout, /sha256/)
  })

  await t.test('other programs', async (t) => {
    const env = cleanEnv({ NODE_EXTRA_CA_CERTS: authority! })
    const script = `
      import OpenAI from ${JSON.stringify(import.meta.resolve('openai'))}
      const client = new OpenAI({ baseURL: '${url}/v1', apiKey: '${node.token}' })
      const models = await client.models.list()
      const plain = await fetch('${url}/healthz')
      console.log(models.data.length, await plain.text())`
    const trusting = spawnSync(process.execPath, ['--input-type=module', '-e', script], { env, cwd: root })
    t.match(String(trusting.stdout), /^\d+ \{"ok":true\}/, String(trusting.stderr))
    const strange = spawnSync(process.execPath, ['--input-type=module', '-e', script],
      { env: cleanEnv(), cwd: root })
    t.match(String(strange.stderr), /SELF_SIGNED_CERT_IN_CHAIN|Connection error/)
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/capabilities/session`, { ca: node.ca! })
    t.equal(await new Promise((resolve) => {
      socket.on('open', () => { resolve('open') }).on('error', resolve)
    }), 'open')
    socket.terminate()
    if (!has('curl')) return
    const curl = (...args: string[]): number | null =>
      spawnSync('curl', ['-sS', ...args, `${url}/healthz`]).status
    t.equal(curl('--cacert', authority!), 0)
    t.equal(curl('--insecure', '--pinnedpubkey', fingerprint!), 0)
    t.equal(curl('--insecure', '--pinnedpubkey', `sha256//${'A'.repeat(43)}=`), 90)
    t.equal(curl(), 60, 'no authority of the system vouches for it')
  })

  await t.test('after a restart it is the same node', async (t) => {
    await ask(node, '/admin/restart', { method: 'POST' })
    await until('another node id', async () => {
      const answer = await ask(node, '/node_id').catch(() => undefined)
      return answer?.status === 200 && answer.json !== node.nodeId
    })
    t.equal(await shownAt(node.port), fingerprint)
    t.equal((await svc(['status', '--home', node.home])).status, 0)
  })
})

t.test('api.tls: files, which are renewed while the node runs', async (t) => {
  const home = join(folder(t), 'home')
  const pems = folder(t)
  const files = { tls_cert: join(pems, 'cert.pem'), tls_key: join(pems, 'key.pem') }
  const make = (cn: string): void => {
    const { status, stderr } = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt',
      'ec_paramgen_curve:P-256', '-nodes', '-days', '90', '-subj', `/CN=${cn}`, '-addext',
      'subjectAltName=DNS:svc.example.net,IP:127.0.0.1', '-keyout', files.tls_key, '-out', files.tls_cert])
    t.equal(status, 0, String(stderr))
  }
  make('one')
  const config = { ...quiet, api: { tls: 'files', ...files, allowed_hosts: ['svc.example.net'] } }
  writeConfig(home, { ...config, api: { ...config.api, tls_key: join(pems, 'none.pem') } })
  const wrong = await svc(['up', '--home', home, '--port', '0'])
  t.equal(wrong.status, 1)
  t.match(wrong.stderr, /api\.tls: cannot read .*none\.pem.*svc config set api\.tls self/)

  const child = run(process.execPath, [cli, 'up', '--json', '--home', home, '--port', '0',
    '--config', writeConfig(home, config)], { env: { HOME: home } })
  t.teardown(() => child.process.kill())
  const line = await until('its line', () =>
    child.stdout().split('\n').find((text) => text.startsWith('{"url"')))
  const { url, fingerprint } = JSON.parse(line) as UpLine
  const port = Number(new URL(url).port)
  const certificate = (): string => readFileSync(files.tls_cert, 'utf8')
  t.equal(fingerprint, pinOf(new X509Certificate(certificate())))
  const at = { url, token: readFileSync(join(home, 'operator.token'), 'utf8').trim() }
  const { nodeIdentities } = (await ask({ ...at, ca: certificate() }, '/state')).json as
    { nodeIdentities: Record<string, { apiUrl: string }> }
  t.equal(Object.values(nodeIdentities)[0]!.apiUrl, `https://svc.example.net:${port}`,
    'others are told the name that the certificate is for')
  make('two')
  await until('the new instance', async () => await shownAt(port) !== fingerprint, { seconds: 30 })
  t.equal((await svc(['status', '--home', home])).status, 0, 'svc on this home knows it too')
  writeFileSync(files.tls_key, 'no key')
  const told = await until('the node to report the problem', async () => {
    const { nodeHealth } = (await ask({ ...at, ca: certificate() }, '/state')).json as
      { nodeHealth: Record<string, { reasons: { code: string, message: string }[] }> }
    return Object.values(nodeHealth)[0]?.reasons.find(({ code }) => code === 'certificate_unusable')
  }, { seconds: 30 })
  t.match(told.message, /key\.pem contains no private key/)
  t.match((await svc(['doctor', '--home', home])).stdout, /certificate_unusable/)
  child.process.kill('SIGTERM')
  t.equal(await child.ended, 0)
})

t.test('a cluster over TLS: pages of other members, svc dev', async (t) => {
  const cluster = await startCluster(t, { nodes: 2, config: { ...quiet, api: { tls: 'self' } } })
  const [one, two] = cluster.members.map(({ node }) => node)
  const { nodeIdentities } = (await ask(one!, '/state')).json as
    { nodeIdentities: Record<string, { apiUrl: string }> }
  t.same(Object.values(nodeIdentities).map(({ apiUrl }) => apiUrl).sort(), [one!.url, two!.url].sort())
  const page = (): Promise<Answer> => ask(one!, '/state', { headers: { origin: two!.url } })
  // The next heartbeat says that the member's address belongs to this machine.
  await until('pages of the other node', async () => (await page()).status === 200)
  t.equal((await page()).headers['access-control-allow-origin'], two!.url)
  t.equal((await svc(['nodes', '--home', one!.home])).status, 0)
})

const outside = Object.values(networkInterfaces()).flat().find((i) => i?.family === 'IPv4' &&
  !i.internal)?.address

/** Sends a request from a non-loopback address of this machine, which counts as another machine. */
async function fromOutside (node: TestNode, token: string, more = ''): Promise<string> {
  const socket = createConnection({ host: '127.0.0.1', port: node.port, localAddress: outside! })
  let text = ''
  socket.on('data', (bytes) => { text += String(bytes) })
  socket.write(`GET /node_id HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n${more}` +
    `Authorization: Bearer ${token}\r\n\r\n`)
  await new Promise((resolve) => socket.on('close', resolve))
  return text
}

t.test('a token in clear from another machine is told once, and one over loopback is not',
  { skip: outside === undefined ? 'this machine has only loopback' : false }, async (t) => {
    const told = async (node: TestNode, what: boolean, title: string): Promise<void> => {
      const doctor = await svc(['doctor', '--home', node.home])
      t.equal(/token_in_clear/.test(doctor.stdout), what, `${title}: doctor`)
      const lines = node.child.stderr().split('\n').filter((line) => line.includes('plain HTTP'))
      t.equal(lines.length, what ? 1 : 0, `${title}: the log`)
      if (what) t.match(doctor.stdout, /svc config set api\.tls self/, `${title}: the next command`)
    }
    const node = await startNode(t, { config: quiet, ready: false })
    const app = await tokenWith(node, ['read'])
    t.match(await fromOutside(node, 'svc_wrong'), /^HTTP\/1\.1 401/)
    await ask(node, '/node_id', { token: app })
    await told(node, false, 'a wrong one, and one over loopback')
    for (let i = 0; i < 3; i++) t.match(await fromOutside(node, app), /^HTTP\/1\.1 200/)
    await told(node, true, 'three times')
    t.notMatch(node.child.stderr(), new RegExp(app), 'the token itself is told to nobody')

    const behind = await startNode(t, { ready: false,
      config: { ...quiet, api: { trust_proxy: [`${outside!}/32`] } } })
    const other = await tokenWith(behind, ['read'])
    t.match(await fromOutside(behind, other, 'X-Forwarded-For: 198.51.100.7\r\n'), /^HTTP\/1\.1 200/)
    await told(behind, false, 'by a trusted proxy')
  })
