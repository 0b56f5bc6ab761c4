import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { command, controlRig, put, session, sizeOf } from './documents-kit.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

function heap (): number {
  gc()
  gc()
  return process.memoryUsage().heapUsed
}

const instance = (n: number): object =>
  ({ model: `model-${n % 7}`, node: `node-${n % 3}`, state: 'placed', since: n })

t.test('T-Y01: 100,000 overwrites of 100 keys leave what the keys need', (t) => {
  const { control } = controlRig()
  control.append(session('s1', 1))
  for (let n = 0; n < 2000; n++) control.append(command(`c${n}`, [put(`inst/${n % 100}`, instance(n))]))
  const before = heap()
  for (let n = 2000; n < 102_000; n++) {
    // Write the keys in varying order, so that their places in the document vary.
    const key = `inst/${(n * 7919 + (n >> 7)) % 100}`
    control.append(command(`c${n}`, [put(key, instance(n))]))
  }
  const grown = heap() - before
  const { keys, structs, bytes } = sizeOf(control)
  t.equal(keys, 100)
  t.ok(bytes <= 256 * 1024, `${bytes} bytes`)
  t.ok(structs <= 5000, `${structs} structs`)
  t.ok(grown < 20e6, `${grown} bytes of heap`)
  t.equal(control.last().seq, 102_001)
  control.close()
  t.end()
})

t.test('T-Y02: 10,000 placements that are deleted again leave nothing', (t) => {
  const { control } = controlRig()
  control.append(session('s1', 1))
  control.append(command('stays', [put('inst/stays', 1)]))
  for (let n = 0; n < 10_000; n++) {
    control.append(command(`p${n}`, [put(`inst/${n}`, instance(n))]))
    control.append(command(`d${n}`, [put(`inst/${n}`, undefined)]))
  }
  const { keys, structs, bytes } = sizeOf(control)
  t.equal(keys, 1)
  t.ok(structs < 10, `${structs} structs`)
  t.ok(bytes < 1024, `${bytes} bytes`)
  control.close()
  t.end()
})

t.test('T-Y09: 200 sessions hold no more memory than five', (t) => {
  const { control } = controlRig()
  const { control: follower } = controlRig()
  let n = 0
  const live = (from: number, to: number): void => {
    for (let s = from; s < to; s++) {
      control.append(session(`s${s}`, s + 1))
      follower.adopt(control.body(null))
      for (let i = 0; i < 50; i++) {
        control.append(command(`c${n++ % 1000}`, [put(`inst/${i}`, instance(i))], `s${s}`, s + 1))
      }
      follower.adopt(control.body(follower.last().seq))
    }
  }
  live(0, 25)
  const early = heap()
  live(25, 225)
  const late = heap()
  t.ok(late < early * 1.1, `${early} bytes, then ${late}`)
  t.equal(follower.position().hash, control.position().hash)
  t.ok(sizeOf(control).structs < 200)
  control.close()
  follower.close()
  t.end()
})
