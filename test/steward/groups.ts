import { majority } from './majority.js'
import { models } from './models.js'
import { nodes } from './nodes.js'
import { requests } from './requests.js'
import { solo, tight } from './solo.js'
import { stores } from './stores.js'
import type { Group } from './types.js'

export const groups: readonly Group[] = [nodes, models, solo, stores, majority, requests, tight]
