import t from 'tap'
import { countParts, turnFor } from '../http/json-complexity.js'

t.test('lists, objects and keys are counted, and nothing inside of texts', (t) => {
  const most = 32_768
  const fine: string[] = [
    '', '{', `[${'1,'.repeat(131_072)}1]`, '"'.repeat(3), `"${'[{:'.repeat(most)}"`,
    `"\\"${'['.repeat(most + 1)}"`,
    `"\\\\\\"${'['.repeat(most + 1)}`, `{"a":[${'[],'.repeat(most - 3)}1]}`
  ]
  const excessOf = (body: Buffer): string | null => countParts(body).excess
  for (const text of fine) t.equal(excessOf(Buffer.from(text)), null, text.slice(0, 20))
  const bad: string[] = [
    `[${'[],'.repeat(most)}1]`, '['.repeat(most + 1), `{${'"a":1,'.repeat(most)}"b":1}`,
    `"\\\\"${'['.repeat(most + 1)}`, `{"a":"${'x'.repeat(9)}",${'"b":{},'.repeat(most / 2)}"c":1}`
  ]
  for (const text of bad) t.match(excessOf(Buffer.from(text)), /^has more than 32768/, text.slice(0, 20))
  t.match(excessOf(Buffer.from(`[${'null,'.repeat(131_073)}1]`)), /^has more than 131072 values/)
  t.end()
})

t.test('of large bodies that end at once each has a turn of the event loop', async (t) => {
  const order: string[] = []
  const large = Buffer.alloc(16 * 1024)
  const note = (name: string, body: Buffer): void => { void turnFor(body).then(() => { order.push(name) }) }
  for (const name of ['a', 'b', 'c']) note(name, large)
  note('small', Buffer.alloc(10))
  for (let turn = 1; turn <= 3; turn++) {
    await new Promise((resolve) => { setImmediate(resolve) })
    order.push(`turn ${turn}`)
  }
  t.same(order, ['small', 'a', 'turn 1', 'b', 'turn 2', 'c', 'turn 3'])
})
