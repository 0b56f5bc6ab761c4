import type { ModelCard } from '../../../kernel/index.js'

const PART = /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/
const FOLDER = /^([A-Za-z0-9](?:(?!--[A-Za-z0-9])[A-Za-z0-9._-])*)--([A-Za-z0-9][A-Za-z0-9._-]*)$/
const LONGEST_ID = 193

/** Why an id is invalid; null if it is valid. Ids become folder names on all platforms. */
export function modelIdProblem (id: string): string | null {
  const problem = idShapeProblem(id)
  return problem === null ? null : `${shown(id)} is not a valid model id: ${problem}.`
}

function idShapeProblem (id: string): string | null {
  if (id.length > LONGEST_ID) return `it is longer than ${LONGEST_ID} characters`
  const [org, name, ...rest] = id.split('/')
  if (org === undefined || name === undefined || rest.length > 0) return 'it must have the form org/name'
  for (const part of [org, name]) {
    if (!PART.test(part)) {
      return 'each part is 1 to 96 of the characters A-Z a-z 0-9 . _ - and begins with a letter or digit'
    }
    if (part.includes('..')) return 'two dots in a row are not allowed'
    if (part.endsWith('.')) return 'no part may end with a dot'
    if (isDeviceName(part)) return 'parts such as CON, NUL or COM1.x are reserved on Windows'
  }
  return org.includes('--') ? 'the part before the slash may not contain two dashes in a row' : null
}

/** The folder name for a model id. Throws PathError for an invalid id. */
export function folderOf (modelId: string): string {
  const problem = modelIdProblem(modelId)
  if (problem !== null) throw new PathError(problem)
  return modelId.replace('/', '--')
}

/** The model id for a folder name; undefined for any other folder. */
export function modelOf (folder: string): string | undefined {
  const match = FOLDER.exec(folder)
  if (match === null) return undefined
  const id = `${match[1]!}/${match[2]!}`
  return modelIdProblem(id) === null ? id : undefined
}

const SEGMENT = /^[A-Za-z0-9._+=@()-]{1,128}$/
const MOST_SEGMENTS = 8

/** Whether a name at the top of a model folder is reserved for svc (`.svc-record.json`, `.last_used`). */
export function isOwnName (name: string): boolean {
  const folded = name.toLowerCase()
  return folded.startsWith('.svc') || folded === '.last_used'
}

/** Why a string is no file path of a model; null if it is: relative, portable, at most 8 segments. */
export function filePathProblem (path: string): string | null {
  const problem = pathShapeProblem(path)
  return problem === null ? null : `${shown(path)} is not a valid file path of a model: ${problem}.`
}

/** Checks the paths in a card and returns the card. Throws an Error that names the first invalid path. */
export function checkCardPaths (card: ModelCard, where: string): ModelCard {
  for (const { path } of card.files) {
    const problem = filePathProblem(path)
    if (problem !== null) throw new Error(`model card ${where}: files: ${problem}`)
  }
  return card
}

function pathShapeProblem (path: string): string | null {
  if (path === '') return 'it is empty'
  if (path.includes('\\')) return 'a backslash is not allowed'
  if (path.startsWith('/') || /^[A-Za-z]:/.test(path)) return 'it must be relative'
  const segments = path.split('/', MOST_SEGMENTS + 1)
  if (segments.length > MOST_SEGMENTS) return `it has more than ${MOST_SEGMENTS} segments`
  for (const segment of segments) {
    const problem = segmentProblem(segment)
    if (problem !== null) return problem
  }
  return isOwnName(segments[0]!) ? 'its first segment is reserved for svc' : null
}

function segmentProblem (segment: string): string | null {
  if (segment === '.' || segment === '..') return '"." and ".." are not allowed'
  if (!SEGMENT.test(segment)) {
    return 'each segment is 1 to 128 of the characters A-Z a-z 0-9 . _ + = @ ( ) -'
  }
  if (segment.endsWith('.')) return 'no segment may end with a dot'
  return isDeviceName(segment) ? 'segments such as CON, NUL or COM1.x are reserved on Windows' : null
}

export function foldersAbove (path: string): string[] {
  const segments = path.split('/')
  return segments.slice(1).map((_, i) => segments.slice(0, i + 1).join('/'))
}

const SHOWN_CHARACTERS = 80
/** Windows opens a device for these names, with any extension and in any case. */
const DEVICE = /^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)/i

/** Makes untrusted text safe for messages: quoted, cut to 80 characters, only printable ASCII unescaped. */
export function shown (text: string): string {
  const cut = text.length > SHOWN_CHARACTERS
  const escaped = text.slice(0, SHOWN_CHARACTERS).replace(/[^\x20-\x7e]/g, (character) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return `"${escaped}"${cut ? `... (${text.length} characters)` : ''}`
}

export const isDeviceName = (name: string): boolean => DEVICE.test(name)

/** An invalid path, name or folder, or one that could lead outside the root. */
export class PathError extends Error {
  override readonly name = 'PathError'
  readonly reason = 'bad_path'
}

export class ManifestError extends Error {
  override readonly name = 'ManifestError'
  readonly reason = 'bad_manifest'
}

/** The result of a call; `missing` if it fails because a file or folder does not exist. */
export async function orMissing<T, M> (call: Promise<T>, missing: M): Promise<T | M> {
  return await call.catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return missing
    throw error
  })
}

/** The errno code of a failed system call, such as `ENOENT`; undefined for any other error. */
export function errnoOf (error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
