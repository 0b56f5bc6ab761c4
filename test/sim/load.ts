import type { World } from './world.js'

/** Sends commands, streams and directives, as clients and a master would, until `end`. */
export class Load {
  readonly #world: World
  readonly #ids: string[] = []
  #count = 0

  constructor (world: World) { this.#world = world }

  begin (start: number, end: number): void {
    const { schedule, random } = this.#world
    const next = (): void => {
      this.#round()
      if (schedule.now < end) schedule.after(200 + random() * 400, next)
    }
    schedule.at(start, next)
  }

  #round (): void {
    const { random } = this.#world
    const id = `c${this.#count++}`
    this.#ids.push(id)
    this.command(id)
    // Sometimes repeats the command or an old one, possibly at another node or in a later session.
    if (random() < 0.1) this.command(id)
    if (random() < 0.1) this.command(this.#ids[Math.floor(random() * this.#ids.length)]!)
    this.stream(`s${this.#count}`)
    this.#direct()
  }

  command (id: string): void {
    const { world, node } = this.#pick()
    node.step((core) => { core.command(id, null, world.now) })
  }

  stream (id: string): void {
    const { world, node } = this.#pick()
    node.step((core) => {
      world.check.opened(id, node, node.leader?.sid ?? null)
      core.openStream(id)
    })
  }

  /** Every node that considers itself master sends directives. */
  #direct (): void {
    const world = this.#world
    if (world.random() < 0.5) return
    for (const master of world.nodes) {
      if (master.frozen || !master.isMaster) continue
      if (master.leader === null) continue
      const { sid, term } = master.leader
      const instance = `i${Math.floor(world.random() * 4)}`
      world.direct(master, this.#pick().node, { token: { term, master: master.id }, sid, instance })
    }
  }

  #pick (): { world: World, node: World['nodes'][number] } {
    const world = this.#world
    return { world, node: world.node(Math.floor(world.random() * world.nodes.length)) }
  }
}
