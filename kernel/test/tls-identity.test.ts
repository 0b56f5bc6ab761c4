import { createPrivateKey, createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:https'
import { join } from 'node:path'
import t from 'tap'
import { openApiTls, advertisedName, namesOf, ownFile, ownIdentity } from '../boot/api-tls.js'
import * as x509 from '../http/tls/x509.js'
import { BootError } from '../api/errors.js'
import { readConfigText } from '../config/text.js'
import { resolveConfig } from '../config/resolve.js'
import { identityInFiles } from '../http/tls/files.js'
import { pinOf, readPin } from '../http/tls/pin.js'
import { tlsOf } from '../http/tls/port.js'
import { watchIdentity } from '../http/tls/watch.js'
import { tempHome } from '../../plugins/cluster/test/identity-kit.js'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../api/clock.js'
import type { Logger } from '../api/plugin.js'
import type { IdentitySource, ServerIdentity } from '../http/tls/identity.js'

const DAY_MS = 24 * 60 * 60 * 1000
const NOW = Date.UTC(2030, 0, 1)

/** Key and certificate files as if from another authority; being self-signed makes no difference here. */
function pair (
  home: string, { from = NOW - DAY_MS, until = NOW + 90 * DAY_MS, names = ['svc.example.net'] } = {}
): { cert: string, key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const files = { cert: join(home, 'fullchain.pem'), key: join(home, 'privkey.pem') }
  writeFileSync(files.key, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  writeFileSync(files.cert, x509.makeCertificate({
    subject: 'x', issuer: 'x', publicKey, signer: privateKey, serial: Uint8Array.of(7), from, until,
    extensions: x509.serverExtensions(publicKey, privateKey, names)
  }))
  return files
}

/** Connects as a client that trusts `ca` to a server with the identity; returns `ok` or the error. */
async function asked (identity: ServerIdentity, ca: string, servername: string): Promise<string> {
  const server = createServer(tlsOf(identity), (_request, response) => { response.end('ok') })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as AddressInfo
  const said = await new Promise<string>((resolve) => {
    request({ host: '127.0.0.1', port, ca, servername, agent: false }, (response) => {
      response.on('data', (text: Buffer) => { resolve(String(text)) })
    }).on('error', ({ code, message }: NodeJS.ErrnoException) => {
      resolve(code === 'UNSPECIFIED' ? message : code!)
    }).end()
  })
  server.close()
  server.closeAllConnections()
  return said
}

const leafOf = ({ cert }: ServerIdentity): X509Certificate => new X509Certificate(cert)

t.test('self: one key, one authority, and certificates for what is served', async (t) => {
  const home = tempHome(t)
  let names = ['localhost', '127.0.0.1', '::1']
  let now = Date.now()
  const open = (): IdentitySource =>
    ownIdentity({ home, installId: 'i-1', names: () => names, now: () => now, x509 })
  const source = open()
  const first = source.next()!
  const ca = readFileSync(source.authority!, 'utf8')
  t.equal(statSync(join(home, ownFile.key)).mode & 0o777, 0o600, 'the key is its owner\'s alone')
  t.equal(await asked(first, ca, 'localhost'), 'ok', 'a client that trusts the authority')
  t.equal(leafOf(first).checkIP('::1'), '::1')
  t.ok(leafOf(first).verify(new X509Certificate(ca).publicKey))
  t.equal(leafOf(first).ca, false)
  t.equal(source.next(), null, 'it stays while nothing changes')

  names = [...names, '192.168.7.7']
  const second = source.next()!
  t.equal(second.fingerprint, first.fingerprint, 'another address: the key stays')
  t.equal(leafOf(second).checkIP('192.168.7.7'), '192.168.7.7')
  t.equal(readFileSync(source.authority!, 'utf8'), ca, 'and so does the authority')
  t.equal(await asked(second, ca, 'localhost'), 'ok')

  names = [...names, 'attic.example.net']
  const third = source.next()!
  const wider = readFileSync(source.authority!, 'utf8')
  t.not(wider, ca, 'a name in public needs an authority that may sign for it')
  t.equal(await asked(third, wider, 'attic.example.net'), 'ok')
  t.equal(await asked(third, wider, 'other.example.net'), 'ERR_TLS_CERT_ALTNAME_INVALID')
  t.equal(open().next()!.fingerprint, first.fingerprint, 'the next start has the same key')
  t.equal(readFileSync(source.authority!, 'utf8'), wider, 'and the same authority')

  now += 370 * DAY_MS
  t.ok(source.next()!.until > third.until, 'it is renewed before it ends')
  now -= 370 * DAY_MS
  rmSync(join(home, ownFile.key))
  const other = open().next()!
  t.not(other.fingerprint, first.fingerprint)
  t.equal(await asked(other, readFileSync(source.authority!, 'utf8'), 'localhost'), 'ok',
    'a lost key costs the authority too')
})

t.test('the authority signs for no other name, whoever has its key', async (t) => {
  const home = tempHome(t)
  const source = ownIdentity({
    home, installId: 'i-1', names: () => ['localhost'], now: () => Date.now(), x509
  })
  const good = source.next()!
  const ca = readFileSync(source.authority!, 'utf8')
  const signer = createPrivateKey(good.key)
  const publicKey = createPublicKey(signer)
  const forged = async (name: string, ca: string): Promise<string> => {
    const cert = x509.makeCertificate({
      subject: 'bank', issuer: 'svc node i-1', publicKey, signer, serial: Uint8Array.of(9),
      from: Date.now() - DAY_MS, until: Date.now() + DAY_MS,
      extensions: x509.serverExtensions(publicKey, signer, [name, 'localhost'])
    })
    return await asked({ ...good, cert }, ca, 'localhost')
  }
  for (const name of ['bank.example', '198.51.100.7', '172.32.0.1', '2001:db8::1']) {
    t.equal(await forged(name, ca), 'permitted subtree violation', name)
  }
  for (const name of ['127.0.0.9', '10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.1', '::1', 'fd00::1']) {
    t.equal(await forged(name, ca), 'ok', name)
  }
  // For a public address, the authority must be one that may sign for the address.
  const names = ['localhost', '198.51.100.7', '2001:DB8::1']
  const open = (): IdentitySource =>
    ownIdentity({ home, installId: 'i-1', names: () => names, now: () => Date.now(), x509 })
  const opened = (): string => {
    open().next()
    return readFileSync(source.authority!, 'utf8')
  }
  const wider = opened()
  t.not(wider, ca)
  t.equal(await forged('198.51.100.7', wider), 'ok')
  t.equal(await forged('198.51.100.8', wider), 'permitted subtree violation')
  t.equal(opened(), wider)
  // An authority certificate without address constraints, as earlier releases created, is replaced.
  const loose = x509.makeCertificate({
    subject: 'svc node i-1', issuer: 'svc node i-1', publicKey, signer, serial: Uint8Array.of(8),
    from: Date.now() - DAY_MS, until: Date.now() + DAY_MS,
    extensions: x509.authorityExtensions(publicKey, ['localhost', ...names.slice(1)], [])
  })
  writeFileSync(source.authority!, loose)
  const again = opened()
  t.not(again, loose)
  t.equal(await forged('203.0.113.1', again), 'permitted subtree violation')
})

interface Row {
  title: string
  says: RegExp
  spoil: (files: { cert: string, key: string }, home: string) => void
}

const rows: Row[] = [
  { title: 'no such file', says: /cannot read .*fullchain\.pem: ENOENT/,
    spoil: ({ cert }) => { rmSync(cert) } },
  { title: 'no certificate', says: /fullchain\.pem contains no certificate/,
    spoil: ({ cert }) => { writeFileSync(cert, 'hello') } },
  { title: 'a broken certificate', says: /fullchain\.pem contains no certificate/, spoil: ({ cert }) => {
    writeFileSync(cert, readFileSync(cert, 'utf8').replace(/\n.{8}/, '\nAAAAAAAA'))
  } },
  { title: 'no key', says: /privkey\.pem contains no private key/,
    spoil: ({ key }) => { writeFileSync(key, 'x') } },
  { title: 'a key with a passphrase', says: /privkey\.pem is encrypted.*openssl pkey/, spoil: ({ key }) => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
    const locked = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'p' } as const
    writeFileSync(key, privateKey.export(locked))
  } },
  { title: 'a key of another certificate', says: /does not match the key in .*privkey\.pem/,
    spoil: ({ key }) => {
      const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
      writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }))
    } },
  { title: 'a key for everybody', says: /can be read by every user.*chmod o= /,
    spoil: ({ key }) => { chmodSync(key, 0o644) } },
  { title: 'expired', says: /fullchain\.pem: CN=x has expired, on Dec 30/,
    spoil: (_files, home) => { pair(home, { until: NOW - 2 * DAY_MS, from: NOW - 9 * DAY_MS }) } },
  { title: 'not valid yet', says: /is not valid before Jan {2}3/,
    spoil: (_files, home) => { pair(home, { from: NOW + 2 * DAY_MS }) } }
]

const apiOf = (text: string): ReturnType<typeof resolveConfig> =>
  resolveConfig(readConfigText(text, null), { owners: [], env: {} })

const served = {
  addresses: new Set(['192.0.2.1', 'fe80::1']), port: 52415, secure: true,
  allowedHosts: ['attic.lan', 'svc.example.net:443'], allowedOrigins: []
}

const PAIR = ', tls_cert: fullchain.pem, tls_key: privkey.pem'

const boot = async (home: string, tls: string): ReturnType<typeof openApiTls> => await openApiTls({
  settings: apiOf(`api: { tls: ${tls}${tls === 'files' ? PAIR : ''} }`).config.kernel.api,
  home, installId: 'i-1', file: join(home, 'svc.yaml'), served: () => served, now: () => NOW
})

t.test('files: what cannot be used ends the boot with its name and the next step', async (t) => {
  for (const { title, spoil, says } of rows) {
    const home = tempHome(t)
    spoil(pair(home), home)
    await t.rejects(boot(home, 'files'), BootError, title)
    await t.rejects(boot(home, 'files'), { message: says }, title)
    await t.rejects(boot(home, 'files'), { message: /svc config set api\.tls self/ }, `${title}: what next`)
  }
  const home = tempHome(t)
  pair(home)
  const made = (await boot(home, 'files'))!
  t.equal(advertisedName(made, served), 'svc.example.net:443', 'others use the name of the certificate')
  t.equal(made.source.authority, null)
  t.equal(await boot(home, 'off'), undefined)
  writeFileSync(join(home, ownFile.key), 'x', { mode: 0o600 })
  await t.rejects(boot(home, 'self'), { message: /api-tls\.key contains no P-256 key.*rm / })
  t.same(namesOf(served),
    ['localhost', '127.0.0.1', '::1', '192.0.2.1', 'attic.lan', 'svc.example.net'])
})

t.test('the settings go together', async (t) => {
  const problems = (text: string): string[] =>
    apiOf(text).problems.map(({ path, message }) => `${path}: ${message}`)
  t.same(problems('api: { tls: files, tls_cert: a.pem }'),
    ['api.tls_key: is missing, but api.tls: files needs it'])
  t.same(problems('api: { tls: off, tls_cert: a.pem, tls_key: b.pem }'), [], 'switched off for a while')
  t.match(problems('api: { tls: on }').join(), /api\.tls: .*"off", "self", "files"/)
  t.same(problems('api: { tls: off }'), [])
})

t.test('a renewal is shown without a restart, and a bad one is not', async (t) => {
  const home = tempHome(t)
  let now = NOW
  let look = (): void => {}
  const clock = { now: () => now, every: (_ms: number, fn: () => void) => { look = fn; return () => {} } }
  const pass = (ms: number): void => { now += ms; look() }
  const source = identityInFiles(pair(home, { until: NOW + 20 * DAY_MS }), clock.now)
  const first = source.next()!
  const raised = new Map<string, string>()
  const shown: string[] = []
  watchIdentity({
    source, first, clock: clock as unknown as Clock,
    log: { info: () => {}, warn: () => {} } as unknown as Logger,
    health: {
      raise: (code, what) => { raised.set(code, what) }, clear: (code) => { raised.delete(code) }
    },
    show: ({ fingerprint }) => { shown.push(fingerprint) }
  })
  pass(10_000)
  t.same([shown, [...raised]], [[], []])
  writeFileSync(join(home, 'fullchain.pem'), 'half of a fi')
  pass(10_000)
  t.match(raised.get('certificate_unusable'), /fullchain\.pem contains no certificate/)
  t.same(shown, [])
  pair(home, { until: NOW + 21 * DAY_MS })
  pass(10_000)
  t.equal(shown.length, 1)
  t.not(shown[0], first.fingerprint)
  t.same([...raised], [], 'mended')
  pass(8 * DAY_MS)
  t.match(raised.get('certificate_ending'), /^It expires at 2030-01-22 00:00 UTC, in 13 days\.$/)
  pass(14 * DAY_MS)
  t.match(raised.get('certificate_ending'), /^It expired at/)
  pair(home, { until: NOW + 99 * DAY_MS })
  pass(10_000)
  t.same([...raised], [])
  t.equal(shown.length, 2)
})

t.test('fingerprints are written in one way and read in several', async (t) => {
  const bytes = 'AAEC-_8DBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0'
  const pin = 'sha256//AAEC+/8DBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0='
  for (const text of [pin, pin.slice(8), pin.slice(8, -1), bytes, `SHA256:${bytes}`, ` ${pin}\n`]) {
    t.equal(readPin(text), pin, text)
  }
  for (const text of ['', 'sha256//', pin.slice(0, 40), `${pin}=`, 'x'.repeat(44), 'zz!'.padEnd(43, 'A')]) {
    t.equal(readPin(text), null, text)
  }
  const home = tempHome(t)
  const { cert } = pair(home)
  t.match(pinOf(new X509Certificate(readFileSync(cert))), /^sha256\/\/[\w+/]{43}=$/)
})
