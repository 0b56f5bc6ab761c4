/** A boot that was refused, with every problem found. */
export class BootError extends Error {
  override readonly name = 'BootError'
  readonly problems: readonly string[]
  constructor (problems: readonly string[]) {
    super(`the node cannot start:\n${problems.map((p) => `  - ${p}`).join('\n')}`)
    this.problems = problems
  }
}
