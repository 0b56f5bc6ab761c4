/** How a program forms gangs. All programs of a gang have the same version. */
export interface GangOffer {
  version: string
  /** The families of models that it splits, a regular expression. */
  models: string
  /** True if its traffic goes through svc's links; false if it uses `address`, one of this node. */
  linked: boolean
  address?: string
  /** Why it cannot form gangs on this node. */
  problem: string | null
}

/** How a rank meets the others: the ports of itself, of the next rank on this node, and of the first rank. */
export interface GangPlan {
  rank: number, size: number, port: number, next: number | null, headAddress: string | null, headPort: number
}
