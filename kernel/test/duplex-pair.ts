import { Duplex } from 'node:stream'

/** Two ends of an in-memory connection, like those of Node 22's `duplexPair`. */
export function duplexPair (): [Duplex, Duplex] {
  /** Callbacks by end, called when the other end can write again. */
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
