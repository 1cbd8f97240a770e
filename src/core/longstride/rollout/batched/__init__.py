"""Collection with the policy outside of the loop: the cores step many instances, one forward pass answers them."""
