import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { createIdentity } from '../../../kernel/boot/identity.js'
import { deviceFileOf, deviceFor, newDeviceKeys, savedDevices, saveDevice, signerAt }
  from '../signing/device.js'
import {
  x25519, base64url, fingerprintOfRaw, fromBase64url, isSignedBy, keyPairOf, newKeyPair, purposeBytes, sha256,
  signed, type KeyPair
} from '../../../kernel/index.js'
import { answerMac, pairSecrets } from '../pairing.js'
import {
  commitBytes, CORRECTION, correctionBytes, deviceIdOf, grantBytes, proofBytes, readCredential, requestText,
  transcriptBytes, writeCredential, type Grant
} from '../signing/protocol.js'
import { RequestSigner } from '../signing/signer.js'
import * as web from '../signing/web.js'

const raw = (text: string): Buffer => Buffer.from(text, 'hex')
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')

type Vectors = Record<'seeds' | 'pairing' | 'request' | 'grant', Record<string, string>>
const file = new URL('./signing-vectors.json', import.meta.url)
const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vectors
const seed = (name: string, curve: 'Ed25519' | 'X25519'): KeyPair =>
  keyPairOf(curve, raw(vectors.seeds[name]!))
const { signature: grantSignature, ...grant } = JSON.parse(vectors.grant['json']!) as Grant

const pkcs8 = ({ privateKey }: KeyPair): Buffer => privateKey.export({ type: 'pkcs8', format: 'der' })

t.test('pairing gives the committed bytes on both sides', async (t) => {
  const [key, agreement, ephemeral] =
    [seed('deviceKey', 'Ed25519'), seed('deviceAgreement', 'X25519'), seed('deviceEphemeral', 'X25519')]
  const nodeEphemeral = seed('nodeEphemeral', 'X25519')
  const device = {
    key: key.publicKey, agreementKey: agreement.publicKey, ephemeral: ephemeral.publicKey,
    nonce: raw('11'.repeat(16)), name: 'téléphone'
  }
  const node = {
    key: seed('nodeKey', 'Ed25519').publicKey, agreementKey: seed('nodeAgreement', 'X25519').publicKey,
    ephemeral: nodeEphemeral.publicKey, nonce: raw('22'.repeat(16))
  }
  const commit = sha256(commitBytes(device))
  const hash = sha256(transcriptBytes(commit, node, device))
  const here = pairSecrets(x25519(ephemeral.privateKey, node.ephemeral), hash)
  const there = pairSecrets(x25519(nodeEphemeral.privateKey, device.ephemeral), hash)
  t.same(here, there)
  t.same({
    deviceId: deviceIdOf(sha256(device.key)), commit: text(commit), transcriptSha256: text(hash),
    digits: here.digits, answerKey: text(here.answerKey),
    proof: text(signed(key.privateKey, proofBytes(hash)))
  }, vectors.pairing)

  const { subtle } = crypto
  const held = await subtle.importKey('pkcs8', pkcs8(ephemeral), 'X25519', false, ['deriveBits'])
  const same = await web.compared(held, Uint8Array.from(node.ephemeral), Uint8Array.from(hash))
  t.equal(same.digits, here.digits, 'WebCrypto shows the same')
  const mac = fromBase64url(answerMac(here.answerKey, '{"a":1}'))
  t.same([await same.isAnswer(mac, '{"a":1}'), await same.isAnswer(mac, '{"a":2}'),
    await same.isAnswer(new Uint8Array(0), '')], [true, false, false])
  await t.rejects(web.compared(held, new Uint8Array(32), Uint8Array.from(hash)), 'a key of low order')
  const signs = await subtle.importKey('pkcs8', pkcs8(key), 'Ed25519', false, ['sign'])
  const proof = await web.signedWith(signs, proofBytes(hash))
  t.equal(base64url(proof), vectors.pairing['proof'])
  const own = Uint8Array.from(key.publicKey)
  t.equal(await web.fingerprintOf(own), fingerprintOfRaw(own))
  t.equal(await web.fingerprintOf(own.subarray(1)), undefined)
  t.equal(deviceIdOf(await web.sha256(own)), vectors.pairing['deviceId'])
  t.same([await web.isSignedBy(own, proofBytes(hash), proof),
    await web.isSignedBy(own, proofBytes(commit), proof),
    await web.isSignedBy(own.subarray(1), proofBytes(hash), proof)], [true, false, false])
})

t.test('bytes travel as base64url', (t) => {
  for (const bytes of [[], [0], [255, 254], [251, 255, 191, 0], [...Array(64).keys()]]) {
    const written = base64url(Uint8Array.from(bytes))
    t.equal(written, Buffer.from(bytes).toString('base64url'))
    t.same([...fromBase64url(written)], bytes)
  }
  for (const odd of ['a.b', 'a', 'ab=', '€', 'a+b/']) t.equal(fromBase64url(odd).length, 0, odd)
  t.end()
})

t.test('a key of WebCrypto stays where it is', async (t) => {
  const { privateKey, publicKey } = await web.newWebPair('Ed25519')
  await t.rejects(crypto.subtle.exportKey('pkcs8', privateKey))
  t.ok(isSignedBy(publicKey, Buffer.from('x'), await web.signedWith(privateKey, Uint8Array.of(120))))
  const one = await web.newWebPair('X25519')
  await t.rejects(crypto.subtle.exportKey('pkcs8', one.privateKey))
})

t.test('a request and a grant are signed over the committed bytes', async (t) => {
  const { privateKey } = seed('deviceKey', 'Ed25519')
  const { method, nodeId, target, payload, ts, nonce, signature } = vectors.request as Record<string, string>
  const body = text(sha256(Buffer.from(payload!)))
  const request = { method: method!, nodeId: nodeId!, target: target!, body, ts: Number(ts), nonce: nonce! }
  t.equal(text(signed(privateKey, Buffer.from(requestText(request)))), signature)
  t.equal(text(signed(seed('nodeKey', 'Ed25519').privateKey, purposeBytes('grant', grantBytes(grant)))),
    grantSignature)
  const signs = await crypto.subtle.importKey('pkcs8', pkcs8(seed('deviceKey', 'Ed25519')), 'Ed25519', false,
    ['sign'])
  t.equal(base64url(await web.signedWith(signs, new TextEncoder().encode(requestText(request)))), signature)
  const credential = {
    device: vectors.pairing['deviceId']!, ts: Number(ts), nonce: nonce!, body, signature: signature!
  }
  const written = writeCredential(credential)
  t.equal(written, vectors.request['credential'])
  t.same(readCredential(written), credential)
  const others = [
    `${written} `, `${written},x=1`, written.replace('ts=', 'ts=-'), written.replace(',n=', ',n=a'),
    written.slice(0, -1), '', written.replace('dev=', 'dev=A')
  ]
  for (const other of others) t.equal(readCredential(other), undefined, other)
})

const nobody = { vouched: () => undefined, fingerprints: () => new Map<string, string>() }

t.test('the agreement key belongs to the node\'s key, and purposes do not mix', (t) => {
  const { privateKey, publicKey } = newKeyPair('Ed25519')
  const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const open = () => createIdentity({ privateKeyPem }, nobody)
  const [one, again] = [open(), open()]
  t.same(one.agreementKey, again.agreementKey)
  t.same(one.publicKey, publicKey)
  const peer = newKeyPair('X25519')
  t.same(one.agree(peer.publicKey), x25519(peer.privateKey, one.agreementKey))
  t.throws(() => one.agree(Buffer.alloc(32)), 'a key of low order')
  t.throws(() => one.agree(Buffer.alloc(31)), RangeError)
  const signature = one.sign('grant', Buffer.from('x'))
  t.ok(isSignedBy(publicKey, purposeBytes('grant', Buffer.from('x')), signature))
  t.notOk(isSignedBy(publicKey, purposeBytes('correction', Buffer.from('x')), signature))
  t.notOk(isSignedBy(Buffer.alloc(5), Buffer.from('x'), signature))
  t.end()
})

t.test('only a node of the cluster corrects the clock and id that a device goes by', async (t) => {
  const [node, stranger] = [newKeyPair('Ed25519'), newKeyPair('Ed25519')]
  const keys = newDeviceKeys()
  const learnt: unknown[] = []
  const signer = new RequestSigner({
    keys, fingerprints: new Set([fingerprintOfRaw(node.publicKey)]), seen: undefined, now: () => 1_000_000,
    learnt: (seen) => learnt.push(seen)
  })
  const nonceOf = (authorization: string): string => readCredential(authorization.slice(5))!.nonce
  const say = (by: KeyPair, nonce: string, nodeId = 'n2'): object => {
    const said = { nodeId, timeMs: 1_300_000, nonce }
    const signature = text(signed(by.privateKey, purposeBytes(CORRECTION, correctionBytes(said))))
    return { ...said, nodeKey: text(by.publicKey), signature }
  }
  const nonce = nonceOf(await signer.authorization('GET', '/x', undefined))
  t.notOk(await signer.correct(say(stranger, nonce)), 'not a node')
  const other = nonceOf(await signer.authorization('GET', '/x', undefined))
  t.notOk(await signer.correct({ ...say(node, other), timeMs: 5 }), 'altered')
  const fourth = nonceOf(await signer.authorization('GET', '/x', undefined))
  t.notOk(await signer.correct({ ...say(node, fourth), nodeKey: '!' }), 'no base64url')
  t.notOk(await signer.correct(say(node, 'a'.repeat(16))), 'not about a request of its own')
  for (const odd of [undefined, null, 5, {}, { nodeId: 1 }]) t.notOk(await signer.correct(odd))
  t.same(learnt, [])
  const third = nonceOf(await signer.authorization('GET', '/x', undefined))
  t.ok(await signer.correct(say(node, third)))
  t.notOk(await signer.correct(say(node, third)), 'once')
  t.same(learnt, [{ nodeId: 'n2', aheadMs: 300_000 }])
  const last = await signer.authorization('GET', '/x', undefined)
  t.equal(readCredential(last.slice(5))!.ts, 1_300_000)
})

t.test('a home keeps its devices to itself, and finds the one for an address', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'svc-signing-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  t.same(savedDevices(home), [])
  t.equal(signerAt(home, 'http://127.0.0.1:1', Date.now), undefined)
  const node = { installId: 'i', name: 'n', url: 'http://192.0.2.2:52415', fingerprint: 'f' }
  const device = deviceFileOf(newDeviceKeys(),
    {
      grant: { ...grant, signature: grantSignature }, nodes: [node],
      seen: { 'http://192.0.2.1:52415': { nodeId: 'n1', aheadMs: 0 } }
    })
  saveDevice(home, device)
  t.equal(statSync(join(home, 'devices', `${device.deviceId}.json`)).mode & 0o777, 0o600)
  t.equal(statSync(join(home, 'devices')).mode & 0o777, 0o700)
  for (const url of ['http://192.0.2.1:52415/', 'http://192.0.2.2:52415']) {
    t.equal(deviceFor(home, url)?.deviceId, device.deviceId, url)
  }
  for (const url of ['https://192.0.2.1:52415/', 'http://192.0.2.3:52415', 'nonsense']) {
    t.equal(deviceFor(home, url), undefined, url)
  }
  t.end()
})
