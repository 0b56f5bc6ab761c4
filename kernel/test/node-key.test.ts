import {
  createPrivateKey, createPublicKey, generateKeyPairSync, randomUUID, X509Certificate
} from 'node:crypto'
import {
  chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { fingerprintOf, identityFile, openNodeKey } from '../boot/node-key.js'
import { HomeError } from '../boot/home.js'
import { tempHome } from '../../plugins/cluster/test/identity-kit.js'

t.test('key and certificate are made once and kept', async (t) => {
  const home = tempHome(t)
  const id = randomUUID()
  const first = await openNodeKey(home, id)
  t.match(first, {
    installId: id, fingerprint: /^[\w-]{43}$/, privateKeyPem: /^-----BEGIN PRIVATE KEY-----\n/
  })
  t.equal(statSync(join(home, identityFile.key)).mode & 0o777, 0o600, 'the key is its owner\'s alone')
  t.same(await openNodeKey(home, id), first, 'the next start reads the same')
  t.not((await openNodeKey(tempHome(t), id)).fingerprint, first.fingerprint, 'another home has another')
})

t.test('the certificate carries the key, for ever', async (t) => {
  const id = randomUUID()
  const { certificatePem, fingerprint, privateKeyPem } = await openNodeKey(tempHome(t), id)
  const certificate = new X509Certificate(certificatePem)
  const publicKey = createPublicKey(createPrivateKey(privateKeyPem))
  t.equal(certificate.subject, `CN=${id}`)
  t.equal(certificate.issuer, certificate.subject)
  t.ok(certificate.verify(publicKey), 'signed by its own key')
  t.ok(certificate.checkPrivateKey(createPrivateKey(privateKeyPem)))
  t.equal(fingerprintOf(certificate), fingerprint)
  t.equal(certificate.validFrom, 'Jan  1 00:00:00 2020 GMT')
  t.equal(certificate.validTo, 'Dec 31 23:59:59 9999 GMT')
  t.equal(publicKey.asymmetricKeyType, 'ed25519')
})

t.test('a certificate that is missing, or of another install id, is made again from the key', async (t) => {
  const home = tempHome(t)
  const id = randomUUID()
  const first = await openNodeKey(home, id)
  rmSync(join(home, identityFile.certificate))
  t.same(await openNodeKey(home, id), first)
  const other = randomUUID()
  const renamed = await openNodeKey(home, other)
  t.equal(renamed.fingerprint, first.fingerprint, 'the key stays')
  t.equal(new X509Certificate(renamed.certificatePem).subject, `CN=${other}`)
  t.same(await openNodeKey(home, other), renamed)
})

interface Row {
  title: string
  spoil: (key: string, certificate: string) => void | Promise<void>
  says: RegExp
}

const stranger = async (file: 'key' | 'certificate'): Promise<string> => {
  const owner = { undo: [] as Array<() => void>, teardown (fn: () => void) { this.undo.push(fn) } }
  const home = tempHome(owner)
  await openNodeKey(home, randomUUID())
  const text = readFileSync(join(home, identityFile[file]), 'utf8')
  for (const fn of owner.undo) fn()
  return text
}

const elliptic = (): string => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  .export({ type: 'pkcs8', format: 'pem' }).toString()

const rows: Row[] = [
  { title: 'a key its group can read', spoil: (key) => { chmodSync(key, 0o640) },
    says: /node\.key can be read by others; run: chmod 600 .*node\.key$/ },
  { title: 'a key all can read', spoil: (key) => { chmodSync(key, 0o604) }, says: /can be read by others/ },
  { title: 'an empty key', spoil: (key) => { writeFileSync(key, '') },
    says: /node\.key contains no private key/ },
  { title: 'a key cut in half', spoil: (key) => { writeFileSync(key, readFileSync(key).subarray(0, 60)) },
    says: /node\.key contains no private key in PEM; restore it from a backup/ },
  { title: 'a key of another kind', spoil: (key) => { writeFileSync(key, elliptic()) },
    says: /node\.key contains a key of type ec, not ed25519/ },
  { title: 'a key that is not the certificate\'s',
    spoil: async (key) => { writeFileSync(key, await stranger('key')) },
    says: /node\.crt belongs to another key .* run: rm .*node\.crt/ },
  { title: 'a broken certificate', spoil: (_, certificate) => { writeFileSync(certificate, 'nonsense') },
    says: /node\.crt is not a certificate; run: rm / },
  { title: 'a lost key', spoil: (key) => { rmSync(key) },
    says: /node\.key is missing, .*node\.crt is there; .* run: rm -f .*node\.crt .*members\.json and join/ },
  { title: 'a folder in place of the key',
    spoil: (key) => { rmSync(key); mkdirSync(key, { mode: 0o700 }) },
    says: /cannot read .*node\.key: EISDIR/ }
]

for (const { title, spoil, says } of rows) {
  t.test(`${title} is refused`, async (t) => {
    const home = tempHome(t)
    const id = randomUUID()
    await openNodeKey(home, id)
    const [key, certificate] = [join(home, identityFile.key), join(home, identityFile.certificate)]
    await spoil(key, certificate)
    const error = await openNodeKey(home, id).then(() => undefined, (e: unknown) => e)
    t.ok(error instanceof HomeError, 'a HomeError')
    t.match((error as Error).message, says)
    t.notMatch((error as Error).message, /BEGIN|MC4C/, 'nothing of the key in it')
    t.equal(existsSync(key), title !== 'a lost key', 'nothing is made in its place')
  })
}
