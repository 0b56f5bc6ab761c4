import { createHash } from 'node:crypto'

/** Derives a command id (UUID v8) from its arguments, so that every master issues the same command. */
export function onceFor (what: string, id: string): string {
  const hex = createHash('sha256').update(`placement ${what} ${id}`).digest('hex')
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5')
}
