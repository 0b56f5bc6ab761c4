/** Model files that are broken, or that nothing here can run. The message says what was looked for. */
export class CardError extends Error {
  override readonly name = 'CardError'
}
