import { PathError } from './errors.js'
import { isDeviceName, shown } from './names.js'

const PART = /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/
const FOLDER = /^([A-Za-z0-9][A-Za-z0-9._-]*?)--([A-Za-z0-9][A-Za-z0-9._-]*)$/
/** Two parts of 96 characters and the slash. */
const LONGEST_ID = 193

/**
 * Why a text is no model id, as one sentence, or null when it is one. An id names a folder on disk, so
 * the rules of all platforms count everywhere.
 */
export function modelIdProblem (id: string): string | null {
  if (typeof id !== 'string') return 'A model id is a text such as org/name.'
  const problem = shapeProblem(id)
  return problem === null ? null : `${shown(id)} is no model id: ${problem}.`
}

function shapeProblem (id: string): string | null {
  if (id.length > LONGEST_ID) return `it is longer than ${LONGEST_ID} characters`
  const [org, name, ...rest] = id.split('/')
  if (org === undefined || name === undefined || rest.length > 0) return 'it must have the form org/name'
  for (const part of [org, name]) {
    if (!PART.test(part)) {
      return 'each part is 1 to 96 of the characters A-Z a-z 0-9 . _ - and begins with a letter or digit'
    }
    if (part.includes('..')) return 'two dots in a row are not allowed'
    if (part.endsWith('.')) return 'no part may end with a dot'
    if (isDeviceName(part)) return 'Windows keeps a part such as CON, NUL or COM1.x for a device'
  }
  return org.includes('--') ? 'the part before the slash may not contain two dashes in a row' : null
}

/** The folder name of a model, `org--name`. Throws PathError for what is no model id. */
export function folderOf (modelId: string): string {
  const problem = modelIdProblem(modelId)
  if (problem !== null) throw new PathError(problem)
  return modelId.replace('/', '--')
}

/** The model whose folder has this name, or undefined when it is no model's folder. */
export function modelOf (folder: string): string | undefined {
  const match = FOLDER.exec(folder)
  if (match === null) return undefined
  const id = `${match[1]!}/${match[2]!}`
  return modelIdProblem(id) === null ? id : undefined
}
