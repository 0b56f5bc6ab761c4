import { spend } from './budget.js'
import { frameOf, Rule } from './machine.js'
import type { Frame, State } from './machine.js'

interface Node { next: Map<number, number>, ends: boolean, rest: number }

/** One of several fixed texts. */
export class Literal extends Rule {
  private readonly nodes: Node[] = [{ next: new Map(), ends: false, rest: Infinity }]

  constructor (hole: Frame, texts: readonly string[]) {
    super(hole)
    const encoder = new TextEncoder()
    for (const text of texts) this.add(encoder.encode(text))
  }

  measure (): number {
    return this.rest(0)
  }

  start (ret: Frame): readonly Frame[] {
    return [frameOf(this, 0, ret)]
  }

  step (frame: Frame, byte: number): readonly Frame[] {
    const next = this.nodes[frame.state as number]?.next.get(byte)
    if (next === undefined) return []
    const node = this.nodes[next] as Node
    const ret = frame.ret as Frame
    return node.ends && node.next.size === 0 ? [ret] : [frameOf(this, next, ret)]
  }

  rest (state: State): number {
    return this.nodes[state as number]?.rest ?? Infinity
  }

  override complete (state: State): boolean {
    return this.nodes[state as number]?.ends === true
  }

  private add (bytes: Uint8Array): void {
    let at = 0
    spend(30 * bytes.length)
    for (let i = 0; i <= bytes.length; i++) {
      const node = this.nodes[at] as Node
      node.rest = Math.min(node.rest, bytes.length - i)
      if (i === bytes.length) {
        node.ends = true
        return
      }
      let next = node.next.get(bytes[i] as number)
      if (next === undefined) {
        next = this.nodes.push({ next: new Map(), ends: false, rest: Infinity }) - 1
        node.next.set(bytes[i] as number, next)
      }
      at = next
    }
  }
}
