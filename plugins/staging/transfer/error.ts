/** Why a transfer failed. */
export type TransferReason = 'hash' | 'no_source' | 'disk_full' | 'unwritable'

/** A transfer that cannot go on. What was fetched stays in the folder and is used by the next one. */
export class TransferError extends Error {
  readonly reason: TransferReason

  constructor (reason: TransferReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'TransferError'
    this.reason = reason
  }
}

/** What a source did wrong; the transfer goes on with another one. */
export class SourceFault extends Error {
  constructor (message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'SourceFault'
  }
}

/** The error of a write to this disk, in the words of a transfer. */
export function diskError (error: unknown, where: string): TransferError {
  if (error instanceof TransferError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  const next = `${full ? 'free some space' : 'check the folder and its disk'}, then start it again`
  return new TransferError(full ? 'disk_full' : 'unwritable',
    `cannot write ${where}: ${message}; what was fetched is kept: ${next}`, error)
}
