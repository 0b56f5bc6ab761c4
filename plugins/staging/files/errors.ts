/** A path, name or folder is refused: it is no valid one, or following it could leave the root. */
export class PathError extends Error {
  constructor (message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'PathError'
  }
}

/** A manifest is not valid; the message names the first field that is wrong. */
export class ManifestError extends Error {
  constructor (message: string) {
    super(message)
    this.name = 'ManifestError'
  }
}

/** The errno code of a failed system call, such as `ENOENT`; undefined for any other error. */
export function errnoOf (error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
