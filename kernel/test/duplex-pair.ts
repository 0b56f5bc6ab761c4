import { Duplex } from 'node:stream'

/** Two ends of one connection in memory; Node 22 has a built-in one. */
export function duplexPair (): [Duplex, Duplex] {
  /** By end: called when its other end can write again. */
  const blocked: ((() => void) | undefined)[] = []
  const make = (self: 0 | 1): Duplex => new Duplex({
    read () {
      blocked[self]?.()
      blocked[self] = undefined
    },
    write (chunk, _encoding, done) {
      if (other(self).push(chunk)) done()
      else blocked[1 - self] = done
    },
    final (done) {
      other(self).push(null)
      done()
    }
  })
  const ends: [Duplex, Duplex] = [make(0), make(1)]
  const other = (self: 0 | 1): Duplex => ends[1 - self]!
  return ends
}
