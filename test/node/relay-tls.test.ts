import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import t, { type Test } from 'tap'
import { quiet } from './cluster-kit.js'
import { pairAt } from './devices-kit.js'
import { ask } from './http.js'
import { cli, folder, root, run, startNode, svc, until } from './kit.js'
import { atRelay, relayView, serveDevice, startRelay } from './relay-kit.js'

/** Creates a key and a self-signed certificate with `openssl`. */
function made (t: Test, name: string, to = folder(t)): { key: string, cert: string, options: string[] } {
  const [key, cert] = [join(to, 'relay.key'), join(to, 'relay.crt')]
  const { status, stderr } = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt',
    'ec_paramgen_curve:P-256', '-nodes', '-days', '90', '-subj', `/CN=${name}`, '-addext',
    'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert])
  t.equal(status, 0, String(stderr))
  return { key, cert, options: ['--tls-key', key, '--tls-cert', cert] }
}

/** The host name in the certificate that a port presents now. */
const shownAt = (port: number): Promise<string> => new Promise((resolve, reject) => {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
    resolve(String(socket.getPeerCertificate().subject.CN))
    socket.destroy()
  })
  socket.on('error', reject)
})

t.test('unusable certificate files are named, and the relay does not listen', async (t) => {
  const { key, cert } = made(t, 'one')
  const other = made(t, 'other')
  const text = join(folder(t), 'text.pem')
  writeFileSync(text, 'no pem\n', { mode: 0o600 })
  const rows: [what: string, options: string[], status: number, says: RegExp][] = [
    ['one of them', ['--tls-key', key], 2, /--tls-key and --tls-cert must be given together/],
    ['no key there', ['--tls-key', `${key}x`, '--tls-cert', cert], 1, /cannot read .*relay\.keyx: ENOENT/],
    ['no certificate there', ['--tls-key', key, '--tls-cert', `${cert}x`], 1, /cannot read .*relay\.crtx/],
    ['no key in it', ['--tls-key', text, '--tls-cert', cert], 1, /text\.pem contains no private key in PEM/],
    ['no certificate in it', ['--tls-key', key, '--tls-cert', text], 1, /text\.pem contains no certificate/],
    ['two that do not match', ['--tls-key', other.key, '--tls-cert', cert], 1, /does not match the key in/]
  ]
  for (const [what, options, status, says] of rows) {
    const ran = await svc(['relay', '--port', '0', ...options])
    t.equal(ran.status, status, what)
    t.match(ran.stderr, says)
    t.equal(ran.stdout, '')
  }
})

t.test('a relay over TLS, whose certificate is renewed while it runs', async (t) => {
  const files = made(t, 'one')
  const relay = await startRelay(t, 0, ...files.options)
  t.match(relay.url, /^https:\/\/127\.0\.0\.1:/)
  t.equal((await ask({ ...relay, ca: readFileSync(files.cert, 'utf8') }, '/healthz')).text, '{"ok":true}')
  const env = { NODE_EXTRA_CA_CERTS: files.cert }
  const config = { ...quiet, relay: { url: relay.url } }
  const [node, strange] = [await startNode(t, { config, env }), await startNode(t, { config })]
  await atRelay(node)
  const { reason } = await until('a reason', async () => {
    const view = await relayView(strange)
    return view.reason !== null && view
  })
  t.match(reason, /self-signed certificate/, 'who was not told to trust it does not')
  const { home } = await pairAt(t, node)
  const serve = await serveDevice(t, home, env)
  t.equal((await ask(serve, '/node_id')).json, node.nodeId)
  const blind = await serveDevice(t, home)
  t.match((await ask(blind, '/node_id')).text, /No node answers\. .*self-signed certificate/)

  made(t, 'two', join(files.key, '..'))
  await until('the new certificate', async () => await shownAt(relay.port) === 'two', { seconds: 30 })
  t.equal((await ask(serve, '/node_id')).json, node.nodeId, 'what is open is not touched')
  writeFileSync(files.cert, 'half a')
  await until('it to report the problem', () => /certificate was not replaced: .*no certificate in PEM/
    .test(relay.child.stderr()), { seconds: 30 })
  t.equal(await shownAt(relay.port), 'two')
  t.equal((await ask(serve, '/node_id')).json, node.nodeId)
})

t.test('the commands of its page and of its unit run as they are written', async (t) => {
  const cwd = folder(t)
  made(t, 'one', cwd)
  const read = (path: string): string => readFileSync(join(root, path), 'utf8')
  const page = /^ {4}svc (relay .*)$/m.exec(read('plugins/relay/server/README.md'))![1]!
  const unit = /^ExecStart=\/opt\/svc\/node_modules\/\.bin\/svc (relay .*)$/m
    .exec(read('docs/deploy/svc-relay.service'))![1]!
  for (const line of [page, unit.replaceAll('${CREDENTIALS_DIRECTORY}', cwd)]) {
    // Runs without HOME, as under systemd's DynamicUser.
    const child = run(process.execPath, [cli, ...line.split(' '), '--port', '0'], { cwd, env: { HOME: '/' } })
    t.teardown(() => child.process.kill())
    const { 1: port } = await until(line, () => /^relay at https:\/\/0\.0\.0\.0:(\d+)$/m.exec(child.stdout()))
    t.equal(await shownAt(Number(port)), 'one')
    child.process.kill('SIGTERM')
    t.equal(await child.ended, 0, child.stderr())
  }
})

t.test('a relay says when it cannot listen', async (t) => {
  const relay = await startRelay(t)
  const second = run(process.execPath, [cli, 'relay', '--port', String(relay.port)])
  t.equal(await second.ended, 1)
  t.match(second.stderr(), /the port is in use; choose another with --port/)
})
