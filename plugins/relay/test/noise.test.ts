import { readFileSync } from 'node:fs'
import t from 'tap'
import { CipherState, Initiator, Responder } from '../channel/noise.js'
import { agreementOf, type Agreement } from '../channel/suite.js'
import { Transport } from '../channel/transport.js'
import { manualClock } from '../../../kernel/testing/index.js'

interface Vector {
  source: string
  init_prologue: string
  init_static: string
  init_ephemeral: string
  init_remote_static: string
  resp_prologue: string
  resp_static: string
  resp_ephemeral: string
  handshake_hash?: string
  messages: { payload: string, ciphertext: string }[]
}

/** The public vectors of two implementations; each names its source. */
const { vectors } = JSON.parse(
  readFileSync(new URL('noise-ik-vectors.json', import.meta.url), 'utf8')) as { vectors: Vector[] }
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex')
const hexOf = (part: Uint8Array): string => Buffer.from(part).toString('hex')
const pair = (hex: string): Agreement => agreementOf(bytes(hex))

function sidesOf (v: Vector): { initiator: Initiator, responder: Responder } {
  return {
    initiator: new Initiator({
      prologue: bytes(v.init_prologue), own: pair(v.init_static), ephemeral: pair(v.init_ephemeral),
      remoteStatic: bytes(v.init_remote_static)
    }),
    responder: new Responder({
      prologue: bytes(v.resp_prologue), own: pair(v.resp_static), ephemeral: pair(v.resp_ephemeral)
    })
  }
}

/** Two sides after a handshake with the keys of the first vector. */
function established (): ReturnType<typeof shake> { return shake(sidesOf(vectors[0]!)) }

function shake ({ initiator, responder }: ReturnType<typeof sidesOf>) {
  responder.receive(initiator.start())
  const { message, session } = responder.answer()
  return { initiator: initiator.finish(message).session, responder: session }
}

t.equal(vectors.length, 2)
for (const v of vectors) {
  t.test(`the vector of ${v.source}, both sides`, async (t) => {
    const { initiator, responder } = sidesOf(v)
    const [first, second, ...rest] = v.messages
    const started = initiator.start(bytes(first!.payload))
    t.equal(hexOf(started), first!.ciphertext)
    const received = responder.receive(started)
    t.equal(hexOf(received.payload), first!.payload)
    t.equal(hexOf(received.remoteStatic), hexOf(pair(v.init_static).publicKey))
    const answered = responder.answer(bytes(second!.payload))
    t.equal(hexOf(answered.message), second!.ciphertext)
    const finished = initiator.finish(answered.message)
    t.equal(hexOf(finished.payload), second!.payload)
    for (const hash of [finished.session.hash, answered.session.hash]) {
      t.equal(hexOf(hash), v.handshake_hash ?? hexOf(finished.session.hash))
    }
    rest.forEach(({ payload, ciphertext }, i) => {
      const [from, to] = i % 2 === 0
        ? [finished.session, answered.session]
        : [answered.session, finished.session]
      t.equal(hexOf(from.sending.encrypt(bytes(payload))), ciphertext)
      t.equal(hexOf(to.receiving.decrypt(bytes(ciphertext))), payload)
    })
  })
}

t.test('a handshake with another prologue, key or byte fails', async (t) => {
  const v = vectors[0]!
  const first = sidesOf(v).initiator.start()
  t.throws(() => sidesOf({ ...v, resp_prologue: '00' }).responder.receive(first), 'another prologue')
  t.throws(() => sidesOf({ ...v, resp_static: v.init_static }).responder.receive(first), 'another responder')
  t.throws(() => sidesOf(v).responder.receive(first.subarray(0, 95)), 'cut off')
  for (let at = 0; at < first.length; at++) {
    const altered = Buffer.from(first)
    altered[at]! ^= 4
    t.throws(() => sidesOf(v).responder.receive(altered), `byte ${at} of the first message`)
  }
  const { initiator, responder } = sidesOf(v)
  responder.receive(initiator.start())
  const { message } = responder.answer()
  const altered = Buffer.from(message)
  altered[message.length - 1]! ^= 1
  t.throws(() => initiator.finish(altered), 'the second message')
})

t.test('keys of small order are refused', async (t) => {
  const own = pair(vectors[0]!.init_static)
  for (const small of ['00'.repeat(32), `01${'00'.repeat(31)}`,
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800']) {
    t.throws(() => own.agree(bytes(small)), small)
  }
})

t.test('a frame that is replayed, moved, left out, altered or reflected does not open', async (t) => {
  const clock = manualClock()
  const open = (...deal: ((sealed: Uint8Array[], own: Transport) => Uint8Array[])[]): (() => void) => () => {
    const sides = established()
    const [device, node] = [new Transport(sides.initiator, clock), new Transport(sides.responder, clock)]
    const sealed = ['a', 'b', 'c'].flatMap((text) => device.seal(Buffer.from(text)))
    for (const message of deal[0]!(sealed, node)) node.open(message)
  }
  t.doesNotThrow(open((all) => all))
  t.throws(open(([a]) => [a!, a!]), 'replayed')
  t.throws(open(([a, b]) => [b!, a!]), 'moved')
  t.throws(open(([a, , c]) => [a!, c!]), 'left out')
  t.throws(open(([a]) => [a!.map((byte, i) => i === 0 ? byte ^ 1 : byte)]), 'altered')
  t.throws(open(([a]) => [a!.subarray(0, 15)]), 'shorter than a tag')
  t.throws(open((_all, node) => node.seal(Buffer.from('x'))), 'reflected')
})

t.test('the sender takes a next key after an hour and after a GiB, and the other side follows', async (t) => {
  const clock = manualClock()
  const sides = established()
  const [device, node] = [new Transport(sides.initiator, clock), new Transport(sides.responder, clock)]
  const pass = (text: string): (string | null)[] => device.seal(Buffer.from(text)).map((message) => {
    const frame = node.open(message)
    return frame === null ? null : Buffer.from(frame).toString()
  })
  t.same(pass('one'), ['one'])
  await clock.advance(3_600_000)
  t.same(pass('two'), [null, 'two'])
  t.same(pass('three'), ['three'])
  const large = { length: 1024 ** 3 } as Uint8Array
  const counted = new Transport({ ...sides.initiator, sending: blind(sides.initiator.sending) }, clock)
  t.equal(counted.seal(large).length, 1)
  t.equal(counted.seal(Buffer.from('x')).length, 2)
})

/** A cipher that returns empty messages, so that sealing a GiB takes no memory. */
function blind (cipher: CipherState): CipherState {
  return Object.assign(Object.create(CipherState.prototype) as CipherState, {
    encrypt: () => Buffer.alloc(0), rekey: () => { cipher.rekey() }
  })
}
